import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import t from 'tap'
import { planInstall } from './install.js'
import { PROGRAMS, hasRedis, startCluster, startRedis, startReplica, startSentinels } from './servers.js'

t.setTimeout(120_000)

t.test('a server answers its client and redis-cli', async t => {
  const server = await startRedis(t)
  const client = new Redis(server.port, server.host)
  t.teardown(() => client.disconnect())
  await client.set('greeting', 'hello\nyou')
  t.equal(await server.command('GET', 'greeting'), 'hello\nyou')
  t.equal(await server.command('GET', 'nothing'), '')
  t.equal(await server.command('DBSIZE'), '1')
  t.match(await server.command('INFO', 'server'), new RegExp(`process_id:${server.pid}\r\n`))
})

t.test('an answer that is an error rejects', async t => {
  const server = await startRedis(t)
  await server.command('SET', 'word', 'x')
  await t.rejects(server.command('INCR', 'word'), { message: 'ERR value is not an integer or out of range' })
  await t.rejects(server.command('LLEN', 'word'), { message: /^WRONGTYPE / })
})

t.test('arguments come behind those that are given anyway', async t => {
  const server = await startRedis(t, '--maxmemory', '64mb', '--appendonly', 'yes')
  t.equal(await server.command('CONFIG', 'GET', 'maxmemory'), 'maxmemory\n67108864')
  t.equal(await server.command('CONFIG', 'GET', 'appendonly'), 'appendonly\nyes')
  t.equal(await server.command('CONFIG', 'GET', 'save'), 'save')
})

t.test('a server that cannot start tells why', async t => {
  await t.rejects(startRedis(t, '--no-such-option', 'yes'), {
    message: /^redis-server on port \d+ ended instead of starting; its log ends with:\n[^]*no-such-option/
  })
})

t.test(
  'a server that was killed or stopped comes back on its port, and a paused one can be either',
  async t => {
    const server = await startRedis(t, '--appendonly', 'yes', '--appendfsync', 'always')
    const { port, pid } = server
    await server.command('SET', 'kept', '1')
    for (const how of ['kill', 'stop'] as const) {
      for (const paused of [false, true]) {
        if (paused) server.pause()
        await server[how]()
        t.notOk(server.running, how)
        t.equal(await isListening(port), false, how)
        await server.restart()
        t.ok(server.running, how)
        t.equal(await server.command('GET', 'kept'), '1', how)
      }
    }
    t.equal(server.port, port)
    t.not(server.pid, pid)
  }
)

t.test('a paused server is silent until it is resumed', async t => {
  const server = await startRedis(t)
  const client = new Redis(server.port, server.host, { commandTimeout: 1000, maxRetriesPerRequest: 0 })
  t.teardown(() => client.disconnect())
  t.equal(await client.ping(), 'PONG')
  server.pause()
  t.notOk(server.running)
  await t.rejects(client.ping(), { message: 'Command timed out' })
  server.resume()
  t.equal(await client.ping(), 'PONG')
})

t.test('a teardown ends what runs, rests or is paused', async t => {
  const endings: (() => unknown)[] = []
  const owner = { teardown: (work: () => unknown) => endings.push(work) }
  const servers = await Promise.all([startRedis(owner), startRedis(owner), startRedis(owner)])
  servers[1].pause()
  await servers[2].stop()
  await Promise.all(endings.map(end => end()))
  for (const { port, running } of servers) {
    t.notOk(running)
    t.equal(await isListening(port), false)
  }
})

t.test('servers end with the process that started them, even if it is killed', async t => {
  const { href } = new URL('servers.js', import.meta.url)
  const script =
    `import { startRedis } from '${href}'\n` +
    'const { port } = await startRedis({ teardown() {} })\n' +
    'console.log(port)'
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGINT'] as const) {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', 'pipe', 'inherit']
    })
    const [port] = (await once(child.stdout, 'data')) as [Buffer]
    t.equal(await isListening(Number(port)), true, signal)
    child.kill(signal)
    await once(child, 'exit')
    t.equal(await isFreed(Number(port)), true, signal)
  }
})

t.test('a replica has what its master has', async t => {
  const master = await startRedis(t)
  await master.command('SET', 'key', 'value')
  const replica = await startReplica(t, master)
  t.equal(await replica.command('GET', 'key'), 'value')
  await t.rejects(replica.command('SET', 'key', 'other'), { message: /^READONLY / })
})

t.test('sentinels make the replica of a dead master the master', async t => {
  const master = await startRedis(t)
  const replica = await startReplica(t, master)
  const sentinels = await startSentinels(t, master, 'limits')
  t.equal(sentinels.length, 3)
  const client = new Redis({
    sentinels: sentinels.map(({ host, port }) => ({ host, port })),
    name: 'limits',
    sentinelRetryStrategy: () => 100,
    retryStrategy: () => 100
  })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  await client.set('key', 'before')
  await client.wait(1, 1000)
  await master.kill()
  t.equal(await client.get('key'), 'before')
  t.equal(await client.set('key', 'after'), 'OK')
  t.equal(await replica.command('GET', 'key'), 'after')
  const place = await sentinels[0]!.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'limits')
  t.equal(place, `${replica.host}\n${replica.port}`)
})

t.test('a cluster of six', async t => {
  const cluster = await startCluster(t)
  const client = new Cluster(cluster.nodes.map(({ host, port }) => ({ host, port })))
  client.on('error', () => {})
  t.teardown(() => client.disconnect())

  t.test('serves all slots from three masters', async t => {
    t.equal(cluster.nodes.length, 6)
    t.strictSame(
      cluster.ports,
      cluster.nodes.map(({ port }) => port)
    )
    const masters = await Promise.all([0, 8191, 16383].map(slot => cluster.masterOf(slot)))
    t.equal(new Set(masters).size, 3)
    await fill(client)
    t.equal(await total(client), 100)
  })

  t.test('moves the lowest slots of a master, and what is in them', async t => {
    const [from, to] = await Promise.all([cluster.masterOf(0), cluster.masterOf(16383)])
    await cluster.reshard(200, from, to)
    t.equal((await cluster.masterOf(0)).port, to.port)
    t.equal((await cluster.masterOf(199)).port, to.port)
    t.equal((await cluster.masterOf(200)).port, from.port)
    t.equal(await total(client), 100)
  })

  t.test('replaces a master that died, and takes it back as a replica', async t => {
    const lost = await cluster.masterOf(8191)
    await lost.kill()
    t.not((await cluster.masterOf(8191)).port, lost.port)
    await cluster.settle()
    await lost.restart()
    await cluster.settle()
    t.match(await lost.command('ROLE'), /^slave\n/)
  })
})

t.test('what has to be installed is what is not there', async t => {
  t.equal(hasRedis(), true)
  const machine = { isRoot: true, hasApt: true }
  t.equal(planInstall(PROGRAMS, machine), 'nothing')
  t.strictSame(planInstall([], machine), { packages: ['redis-server', 'redis-sentinel', 'redis-tools'] })
  t.strictSame(planInstall(['redis-server', 'redis-cli'], machine), { packages: ['redis-sentinel'] })
})

const keys = Array.from({ length: 100 }, (_, i) => `key-${i}`)

const fill = (client: Cluster): Promise<unknown> => Promise.all(keys.map(key => client.set(key, '1')))

async function total(client: Cluster): Promise<number> {
  const values = await Promise.all(keys.map(key => client.get(key)))
  return values.reduce((sum, value) => sum + Number(value), 0)
}

function isListening(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ port, host: '127.0.0.1' }, () => resolve(true))
    socket.on('connect', () => socket.destroy()).on('error', () => resolve(false))
  })
}

/** Whether nobody listens any more, soon. */
async function isFreed(port: number): Promise<boolean> {
  for (const end = performance.now() + 10_000; performance.now() < end; await sleep(20))
    if (!(await isListening(port))) return true
  return false
}
