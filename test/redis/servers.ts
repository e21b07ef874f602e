import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { isOnPath } from '../installing.js'

/** Who ends what was started for it: a test, or anything that collects endings. */
export interface Owner {
  teardown(work: () => unknown): unknown
}

export interface ClusterOptions {
  /** Redis makes no cluster of less than three. */
  readonly masters?: number
  /** Of each master. */
  readonly replicas?: number
  /** Milliseconds until a node that is silent has failed. */
  readonly nodeTimeout?: number
}

/** The programs that the tests start. */
export const PROGRAMS = ['redis-server', 'redis-sentinel', 'redis-cli'] as const

export type Program = (typeof PROGRAMS)[number]

const HOST = '127.0.0.1'

/** Milliseconds. Test files share the machine, so all of these are generous. */
const PATIENCE = { answer: 10_000, start: 30_000, end: 5_000, cluster: 60_000 }

const RESTING = ['--save', '', '--appendonly', 'no', '--repl-diskless-sync-delay', '0']

/** The port and the folder of a server, to the command that runs it there. */
type Command = (port: number, folder: string) => readonly [Program, ...string[]]

const execute = promisify(execFile)

/** Whether this machine has all the programs. */
export const hasRedis = (): boolean => PROGRAMS.every(isOnPath)

/** Starts a server that keeps nothing on disk, unless arguments say otherwise: they are added behind. */
export function startRedis(owner: Owner, ...args: string[]): Promise<RedisServer> {
  return RedisServer.start(owner, port => ['redis-server', ...listening(port), ...RESTING, ...args])
}

/** Starts a replica, and waits until it is in step with its master. */
export async function startReplica(
  owner: Owner,
  { host, port }: RedisServer,
  ...args: string[]
): Promise<RedisServer> {
  const replica = await startRedis(owner, '--replicaof', host, String(port), ...args)
  await until('a replica in step with its master', () => replica.isInStep())
  return replica
}

/** Starts sentinels, and waits until they know each other and all replicas that the master has by then. */
export async function startSentinels(
  owner: Owner,
  master: RedisServer,
  name: string,
  count: number = 3
): Promise<RedisServer[]> {
  const command: Command = (port, folder) => {
    // A sentinel writes down what it learns, so it cannot do without this file.
    const file = join(folder, 'sentinel.conf')
    writeFileSync(file, watching(port, master, name, (count >> 1) + 1))
    return ['redis-sentinel', file]
  }
  const sentinels = await Promise.all(Array.from({ length: count }, () => RedisServer.start(owner, command)))
  const replicas = Number(/^connected_slaves:(\d+)/m.exec(await master.command('INFO', 'replication'))?.[1])
  await until('sentinels that know of each other', async () => {
    const views = await Promise.all(sentinels.map(sentinel => sentinel.command('SENTINEL', 'MASTER', name)))
    return views.map(pairs).every(view => {
      const others = Number(view['num-other-sentinels'])
      return view['flags'] === 'master' && others === count - 1 && Number(view['num-slaves']) >= replicas
    })
  })
  return sentinels
}

/** Starts a cluster, and waits until all its nodes are of one mind and all replicas in step. */
export async function startCluster(
  owner: Owner,
  { masters = 3, replicas = 1, nodeTimeout = 1000 }: ClusterOptions = {}
): Promise<RedisCluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', String(nodeTimeout)]
  const nodes = await Promise.all(
    Array.from({ length: masters * (1 + replicas) }, () => startRedis(owner, ...args))
  )
  const cluster = new RedisCluster(nodes)
  const places = nodes.map(({ host, port }) => `${host}:${port}`)
  await manage('create', ...places, '--cluster-replicas', String(replicas))
  await cluster.settle()
  return cluster
}

/** A server, or a sentinel, in a process of its own. */
export class RedisServer {
  readonly host: '127.0.0.1' = HOST
  readonly port: number
  readonly #folder: string
  readonly #command: readonly [Program, ...string[]]
  #child: ChildProcess | undefined
  #ended: Promise<unknown> = Promise.resolve()
  #paused = false

  private constructor(port: number, command: Command) {
    this.port = port
    this.#folder = mkdtempSync(join(guarded(), `${port}-`))
    this.#command = command(port, this.#folder)
  }

  static async start(owner: Owner, command: Command): Promise<RedisServer> {
    for (let tries = 1; ; tries++) {
      const server = new RedisServer(await freePort(), command)
      owner.teardown(() => server.#remove())
      try {
        await server.restart()
        return server
      } catch (error) {
        await server.#remove()
        // Somebody may have been faster.
        if (tries === 10 || !/Address already in use/.test((error as Error).message)) throw error
      }
    }
  }

  /** The process of now, or the last one there was. */
  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Whether it can answer: its process has neither ended nor been paused. */
  get running(): boolean {
    return isAlive(this.#child) && !this.#paused
  }

  /** Ends it in order, or by force if that takes long. */
  async stop(): Promise<void> {
    this.resume()
    this.#child?.kill('SIGTERM')
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), PATIENCE.end)
    await this.#ended
    clearTimeout(timer)
  }

  /** Ends it on the spot, paused or not. */
  async kill(): Promise<void> {
    this.#child?.kill('SIGKILL')
    await this.#ended
  }

  /** Starts it again on its port and in its folder; stops it before, if nobody did. */
  async restart(): Promise<void> {
    await this.stop()
    this.#child = this.#launch()
    const end = performance.now() + PATIENCE.start
    while (!(await this.#answers())) {
      if (!isAlive(this.#child)) throw this.#failure('ended instead of starting')
      if (performance.now() > end) throw this.#failure('does not answer')
      await sleep(20)
    }
  }

  /** It neither answers nor ends, and its connections stay. */
  pause(): void {
    this.#paused = this.#child?.kill('SIGSTOP') ?? false
  }

  resume(): void {
    this.#child?.kill('SIGCONT')
    this.#paused = false
  }

  /**
   * Sends it a command and gives the raw answer, without the last line break. Rejects if the answer is an error; an
   * answer of one line that looks like an error, such as `OOPS no`, is taken for one.
   */
  async command(...args: string[]): Promise<string> {
    const { stdout } = await runClient(PATIENCE.answer, '-h', HOST, '-p', String(this.port), ...args)
    const answer = stdout.replace(/\n+$/, '')
    if (/^(?!OK )[A-Z]+ .*$/.test(answer)) throw new Error(answer)
    return answer
  }

  /** Whether it is a master, or a replica that has all that its master has. */
  async isInStep(): Promise<boolean> {
    return /^(role:master|master_link_status:up)\r?$/m.test(await this.command('INFO', 'replication'))
  }

  /** The end of what it has logged. */
  logTail(): string {
    return readFileSync(join(this.#folder, 'log'), 'utf8').split('\n').slice(-20).join('\n')
  }

  #launch(): ChildProcess {
    const log = openSync(join(this.#folder, 'log'), 'a')
    const [program, ...args] = this.#command
    const child = spawn(program, args, { cwd: this.#folder, stdio: ['ignore', log, log] })
    closeSync(log)
    this.#ended = new Promise(resolve => child.once('exit', resolve).once('error', resolve))
    guard(child)
    return child
  }

  /** Whether it is this one that answers, not somebody else who took the port. */
  async #answers(): Promise<boolean> {
    try {
      const pong = await this.command('PING')
      const info = await this.command('INFO', 'server')
      return pong === 'PONG' && new RegExp(`^process_id:${this.pid}\r?$`, 'm').test(info)
    } catch {
      return false
    }
  }

  #failure(what: string): Error {
    return new Error(
      `${this.#command[0]} on port ${this.port} ${what}; its log ends with:\n${this.logTail()}`
    )
  }

  async #remove(): Promise<void> {
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 })
  }
}

export class RedisCluster {
  readonly nodes: readonly RedisServer[]

  constructor(nodes: readonly RedisServer[]) {
    this.nodes = nodes
  }

  get ports(): readonly number[] {
    return this.nodes.map(({ port }) => port)
  }

  /** The running node that serves a slot; waits for one, as after the end of the last. */
  masterOf(slot: number): Promise<RedisServer> {
    return until(`a master of slot ${slot}`, async () => {
      const views = await this.#views()
      const claims = views.map(({ node, view }) => ({ node, ...view.find(({ self }) => self)! }))
      return claims
        .filter(({ master, slots }) => master && slots.some(([from, to]) => from <= slot && slot <= to))
        .reduce<Claim | undefined>((best, one) => (one.epoch > (best?.epoch ?? -1) ? one : best), undefined)
        ?.node
    })
  }

  /** Moves so many slots from one master to another, the lowest first, and waits until all running nodes know. */
  async reshard(slots: number, from: RedisServer, to: RedisServer): Promise<void> {
    const [source, target] = await Promise.all([from, to].map(node => node.command('CLUSTER', 'MYID')))
    const ends = ['--cluster-from', source!, '--cluster-to', target!]
    await manage('reshard', `${from.host}:${from.port}`, ...ends, '--cluster-slots', String(slots))
    await this.settle()
  }

  /** Waits until all running nodes serve all slots, see the same masters and replicas, and are in step. */
  async settle(): Promise<void> {
    await until('a cluster of one mind', async () => {
      const views = await this.#views()
      const shapes = new Set(views.map(({ view }) => view.map(({ shape }) => shape).join()))
      if (shapes.size !== 1 || views[0]!.view.length !== this.nodes.length) return false
      const steady = views.map(
        async ({ node }) =>
          /^cluster_state:ok\r?$/m.test(await node.command('CLUSTER', 'INFO')) && (await node.isInStep())
      )
      return (await Promise.all(steady)).every(Boolean)
    })
  }

  /** What each running node thinks of all. */
  #views(): Promise<readonly { readonly node: RedisServer; readonly view: readonly Member[] }[]> {
    const running = this.nodes.filter(node => node.running)
    return Promise.all(
      running.map(async node => ({ node, view: members(await node.command('CLUSTER', 'NODES')) }))
    )
  }
}

/** A node, as a node sees it. */
interface Member {
  readonly self: boolean
  readonly master: boolean
  readonly epoch: number
  readonly slots: readonly (readonly [number, number])[]
  /** What all nodes have to agree upon: who is a replica of whom, and who has which slots. */
  readonly shape: string
}

interface Claim extends Member {
  readonly node: RedisServer
}

/** Reads what `CLUSTER NODES` answers, in the order of the ids. */
function members(text: string): readonly Member[] {
  return text
    .split('\n')
    .sort()
    .map(line => {
      const [id, , flags = '', of, , , epoch, , ...ranges] = line.trim().split(' ')
      // Those in brackets are on their way.
      const slots = ranges
        .filter(range => !range.startsWith('['))
        .map(range => range.split('-').map(Number))
        .map(([from, to = from]) => [from!, to!] as const)
      const has = (flag: string): boolean => flags.split(',').includes(flag)
      const shape = `${id} ${has('master')} ${of} ${ranges.join(' ')}`
      return { self: has('myself'), master: has('master'), epoch: Number(epoch), slots, shape }
    })
}

/** Reads an answer that is a name and a value by turns, a line each. */
function pairs(text: string): Readonly<Record<string, string>> {
  const lines = text.split('\n')
  return Object.fromEntries(
    lines.flatMap((name, at) => (at % 2 === 0 ? [[name, lines[at + 1] ?? '']] : []))
  ) as Record<string, string>
}

/** Waits for a value that is neither false nor missing, not for ever; a failure to look is no value either. */
async function until<T>(what: string, look: () => Promise<T | false | undefined>): Promise<T> {
  let last: unknown
  for (const end = performance.now() + PATIENCE.start; performance.now() < end; await sleep(50)) {
    try {
      const value = await look()
      if (value !== undefined && value !== false) return value
    } catch (error) {
      last = error
    }
  }
  throw new Error(`waited in vain for ${what}`, { cause: last })
}

const listening = (port: number): readonly string[] => ['--port', String(port), '--bind', HOST]

const watching = (port: number, master: RedisServer, name: string, quorum: number): string =>
  [
    `port ${port}`,
    `bind ${HOST}`,
    `sentinel monitor ${name} ${master.host} ${master.port} ${quorum}`,
    `sentinel down-after-milliseconds ${name} 500`,
    `sentinel failover-timeout ${name} 2000`,
    ''
  ].join('\n')

/** A step of the cluster manager, which tells on its output what went wrong. */
async function manage(step: string, ...args: string[]): Promise<void> {
  try {
    await runClient(PATIENCE.cluster, '--cluster', step, ...args, '--cluster-yes')
  } catch (error) {
    const { message, stdout } = error as Error & { readonly stdout?: string }
    throw new Error(`${message}\n${stdout?.slice(-2000)}`, { cause: error })
  }
}

function runClient(timeout: number, ...args: string[]): Promise<{ readonly stdout: string }> {
  return execute('redis-cli', args, { timeout, killSignal: 'SIGKILL', maxBuffer: 2 ** 26 })
}

/**
 * A port that nobody listens on, nor on the one 10 000 above, where the nodes of a cluster talk to each other. Both are
 * below those that systems give to outgoing connections: nobody is given the port while its server is down, and a client
 * that tries to reach it then cannot end up connected to itself.
 */
async function freePort(): Promise<number> {
  for (let tries = 0; tries < 1000; tries++) {
    const port = randomInt(10_000, 20_000)
    if ((await isFree(port)) && (await isFree(port + 10_000))) return port
  }
  throw new Error('no port is free')
}

function isFree(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, HOST, () => server.close(() => resolve(true)))
  })
}

const isAlive = (child: ChildProcess | undefined): child is ChildProcess =>
  child?.pid !== undefined && child.exitCode === null && child.signalCode === null

/**
 * Reads the processes that are there to end, a line each time they change. The last line is in force when the input
 * ends, which it does when the test's process has gone, whatever ended it.
 */
const GUARD =
  'pids=; while read -r line; do pids=$line; done; [ -z "$pids" ] || kill -KILL $pids; rm -rf -- "$1"'

const alive = new Set<number>()
let folder: string | undefined
let guardian: ChildProcess | undefined

/** The folder of all servers of this process, which goes when the process is gone. */
function guarded(): string {
  if (folder !== undefined) return folder
  folder = mkdtempSync(join(tmpdir(), 'fastify-quota-redis-'))
  guardian = spawn('sh', ['-c', GUARD, 'sh', folder], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] })
  guardian.on('error', () => {})
  guardian.stdin!.on('error', () => {})
  guardian.unref()
  ;(guardian.stdin as Socket).unref()
  return folder
}

/** Has a process ended with this one. */
function guard(child: ChildProcess): void {
  const { pid } = child
  if (pid === undefined) return
  const tell = (): void => void guardian?.stdin?.write(`${[...alive].join(' ')}\n`)
  alive.add(pid)
  tell()
  child.once('exit', () => {
    alive.delete(pid)
    tell()
  })
}
