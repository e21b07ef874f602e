import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { mock } from 'node:test'
import type { LightMyRequestResponse } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import type { QuotaOptions } from '../../src/index.js'
import { left, leftOf, serve, serveLater, stores, violated } from '../plugin/kit.js'
import type { Server } from '../plugin/kit.js'

/** One start each 100 ms, after half a second at most: at most six at a time. */
const queue = { quota: 10, window: '1s', algorithm: 'leaky-bucket', maxDelay: '500ms' } as const

interface Line {
  /** Sends a request to a URL; its answer is kept. */
  readonly send: (url?: string) => void
  /** Milliseconds at which the handler ran, since the start. */
  readonly starts: readonly number[]
  readonly answers: readonly LightMyRequestResponse[]
  /** Lets time pass, for quota and for timers, a millisecond at a time. */
  readonly pass: (ms: number) => Promise<void>
}

async function soon(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise(resolve => setImmediate(resolve))
}

/** Stops the timers of the process. */
function stopTimers(t: Test): void {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
}

function line(t: Test, { app, clock }: Server): Line {
  stopTimers(t)
  const began = clock.now
  const starts: number[] = []
  const answers: LightMyRequestResponse[] = []
  app.get('/start', async () => void starts.push(clock.now - began))
  return {
    starts,
    answers,
    send: (url = '/start') => void app.inject(url).then(answer => answers.push(answer)),
    pass: async ms => {
      await soon()
      for (let i = 0; i < ms; i++) {
        clock.pass(1)
        mock.timers.tick(1)
        if (i % 20 === 19) await soon()
      }
      await soon()
    }
  }
}

/** The statuses, successes first. */
const codes = ({ answers }: Line): readonly number[] =>
  answers.map(({ statusCode }) => statusCode).toSorted((a, b) => a - b)

for (const [store, start] of Object.entries(stores)) {
  t.test(`with ${store} queued requests start at the pace of the quota, and not before`, async t => {
    const queued = line(t, await start(t, { queue }))
    for (let i = 0; i < 8; i++) queued.send()
    await queued.pass(600)
    t.strictSame(queued.starts, [0, 100, 200, 300, 400, 500])
    t.strictSame(codes(queued), [200, 200, 200, 200, 200, 200, 429, 429])
    queued.send()
    await queued.pass(1)
    t.equal(queued.starts.length, 7, 'whoever comes when the queue is empty starts at once')
  })

  t.test(`with ${store} what would wait longer than maxDelay is refused, and told the truth`, async t => {
    const server = await start(t, { queue: { ...queue, quota: 1, maxDelay: '2s' } })
    const queued = line(t, server)
    for (let i = 0; i < 4; i++) queued.send()
    await queued.pass(300)
    const refused = queued.answers.find(({ statusCode }) => statusCode === 429)!
    t.strictSame(violated(refused), ['queue'])
    t.strictSame(left(refused), { queue: 0 })
    t.equal(refused.headers['retry-after'], '1')
    t.equal(refused.headers['ratelimit-policy'], '"queue";q=3;w=3')
    await queued.pass(700)
    queued.send()
    await queued.pass(2000)
    t.strictSame(queued.starts, [0, 1000, 2000, 3000], 'as it was told, a second later there is a place')
    t.strictSame(codes(queued), [200, 200, 200, 200, 429])
  })
}

t.test('a cost of several units starts when its last one may', async t => {
  const queued = line(t, await serve(t, { queue: { ...queue, cost: 2 } }))
  for (let i = 0; i < 4; i++) queued.send()
  await queued.pass(600)
  t.strictSame(queued.starts, [100, 300, 500])
  t.strictSame(codes(queued), [200, 200, 200, 429])
})

t.test('of several queues the longest delay counts, and other policies do not wait', async t => {
  const server = await serve(t, {
    slow: { ...queue, quota: 4, partition: 'global' },
    fast: queue,
    window: '99/1s'
  })
  const queued = line(t, server)
  for (let i = 0; i < 3; i++) queued.send()
  await queued.pass(600)
  t.strictSame(queued.starts, [0, 250, 500])
})

t.test('a queue at a later stage waits there, with what came before decided once', async t => {
  const server = await serve(t, {
    early: { ...queue, hook: 'onRequest' },
    late: { ...queue, hook: 'preHandler' }
  })
  const queued = line(t, server)
  for (let i = 0; i < 3; i++) queued.send()
  await queued.pass(400)
  t.strictSame(queued.starts, [0, 100, 200])
  t.strictSame(codes(queued), [200, 200, 200])
})

t.test('a queue on trial delays and refuses nobody', async t => {
  const queued = line(t, await serve(t, { trial: { ...queue, mode: 'shadow' } }))
  for (let i = 0; i < 9; i++) queued.send()
  await queued.pass(1)
  t.strictSame(queued.starts, Array<number>(9).fill(0))
})

t.test('a cost of nothing waits for nobody', async t => {
  const server = await serve(t, { queue: { ...queue, cost: ({ url }) => (url === '/' ? 0 : 1) } })
  const queued = line(t, server)
  queued.send()
  queued.send()
  queued.send('/')
  await queued.pass(1)
  t.equal(queued.answers.length, 2)
})

t.test('a place in the queue is not given back: those behind it were told when they start', async t => {
  const { app, statuses } = await serve(t, {
    queue: { ...queue, hook: 'onRequest' },
    never: { quota: 0, window: '1s' }
  })
  t.strictSame(await statuses('/'), [429])
  t.strictSame(await leftOf(app, ['queue']), { queue: 5 })
})

/** Two requests over connections of their own, the second of which is queued. */
async function queuedBehind(
  t: Test,
  options: QuotaOptions['policies'],
  start: typeof serve | typeof serveLater = serve
): Promise<{ server: Server; ran: string[]; leave: () => Promise<void> }> {
  const server = await start(t, options)
  const { app } = server
  const ran: string[] = []
  app.get('/:name', async ({ params }) => void ran.push(String(Object(params).name)))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const ask = (name: string): ReturnType<typeof connect> => {
    const socket = connect(port, '127.0.0.1', () =>
      socket.write(`GET /${name} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`)
    )
    return socket.on('error', () => {}).resume()
  }
  await new Promise(resolve => ask('first').on('close', resolve))
  const second = ask('second')
  while ((await leftOf(app, ['queue']))['queue'] !== 4) await soon()
  const leave = async (): Promise<void> => {
    const closed = new Promise(resolve => second.on('close', resolve))
    second.destroy()
    await closed
    while ((await new Promise<number>(resolve => app.server.getConnections((_, n) => resolve(n)))) > 0)
      await soon()
  }
  return { server, ran, leave }
}

t.test('who leaves the queue keeps the place in it, and never runs', async t => {
  for (const start of [serve, serveLater]) {
    const { server, ran, leave } = await queuedBehind(t, { queue }, start)
    await leave()
    await new Promise(resolve => setTimeout(resolve, 150))
    t.strictSame(ran, ['first'])
    t.strictSame(await leftOf(server.app, ['queue']), { queue: 4 })
    t.strictSame(server.errors, [])
  }
})

t.test('who waits in a real queue runs when the time has come', async t => {
  const { ran } = await queuedBehind(t, { queue })
  t.strictSame(ran, ['first'])
  await new Promise(resolve => setTimeout(resolve, 200))
  t.strictSame(ran, ['first', 'second'])
})

t.test('who has left before the queue is entered never runs', async t => {
  const server = await serve(t, { queue: { ...queue, hook: 'preHandler' } })
  const { app } = server
  const ran: string[] = []
  let gone: () => void = () => {}
  const left = new Promise<void>(resolve => (gone = resolve))
  app.addHook('preValidation', async ({ raw }) => {
    await app.quota.consume({ ip: '127.0.0.1' }, { queue: 1 })
    await new Promise(resolve => raw.socket.once('close', resolve))
    setTimeout(gone, 150)
  })
  app.get('/late', async () => void ran.push('late'))
  await app.listen({ port: 0, host: '127.0.0.1' })
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1', () => {
    socket.write('GET /late HTTP/1.1\r\nhost: a\r\n\r\n')
    setTimeout(() => socket.destroy(), 30)
  })
  socket.on('error', () => {})
  await left
  t.strictSame(ran, [])
  t.strictSame(await leftOf(app, ['queue']), { queue: 4 }, 'it was charged all the same')
})
