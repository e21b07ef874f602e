import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Duration, FailureMode } from '../../src/index.js'
import { startProxy } from '../redis/proxy.js'
import { startRedis } from '../redis/servers.js'
import type { Owner } from '../redis/servers.js'
import type { Answers, AppOptions, Books, Phase } from './app.js'
import type { Fault, Parts } from './faults.js'
import { Load } from './load.js'
import type { Told } from './load.js'

/** How a fault is looked at. */
export interface Terms {
  readonly modes: readonly FailureMode[]
  /** Requests a second, of all modes together. */
  readonly rate: number
  /** Of each mode, in a day. */
  readonly quota: number
  readonly instances: number
  readonly deadline: Duration
  /** Seconds of load until the machine is warm, then before the fault, while it lasts, and after Redis decides again. */
  readonly seconds: {
    readonly warm: number
    readonly before: number
    readonly during: number
    readonly after: number
  }
  /** Seconds that the recovery may take before nobody waits any longer. */
  readonly patience: number
}

/** What was seen from one moment to another. */
export interface Period extends Phase {
  readonly seconds: number
  readonly told: ReadonlyMap<FailureMode, Told>
}

/** All that was seen of one fault. */
export interface Sight {
  readonly fault: Fault
  readonly terms: Terms
  /** The whole time with load, in order. Of a fault at boot, nothing is before it. */
  readonly periods: { readonly before?: Period; readonly during: Period; readonly after: Period }
  /** What clients were told until then, while the machine got warm. */
  readonly warm: ReadonlyMap<FailureMode, Told>
  /** Milliseconds from the end of the fault until Redis had decided a request of each mode. */
  readonly recovery: number
  readonly books: Books
}

/** How an app ended. */
export interface Ending {
  /** Milliseconds that `app.close()` took, and that the process lived on. */
  readonly closed: number
  readonly exited: number
  readonly code: number | null
}

/** Has a fresh Redis, a proxy, an app and load meet with one fault after the other. */
export class Bench {
  readonly #terms: Terms
  readonly #parts: Parts
  readonly #app: AppProcess

  private constructor(terms: Terms, parts: Parts, app: AppProcess) {
    this.#terms = terms
    this.#parts = parts
    this.#app = app
  }

  /** `fault`: the first one, which says how the app is connected, and whether Redis is there when it starts. */
  static async start(owner: Owner, terms: Terms, fault: Fault): Promise<Bench> {
    // What was answered is in the file of a server that is killed: it is written, though not on the disk.
    const redis = await startRedis(owner, '--appendonly', 'yes', '--appendfsync', 'no')
    const proxy = await startProxy(owner, redis)
    if (fault.atBoot) await redis.kill()
    const { modes, quota, instances, deadline } = terms
    const { port } = fault.direct ? redis : proxy
    const app = await AppProcess.start(owner, {
      port,
      modes,
      quota,
      instances,
      deadline,
      connection: 'dedicated'
    })
    return new Bench(terms, { redis, proxy }, app)
  }

  /** Lets a fault happen. All faults but one at boot begin with nothing counted. */
  async see(fault: Fault): Promise<Sight> {
    const { modes, rate, seconds, patience } = this.#terms
    if (!fault.atBoot) await this.#app.ask('renew')
    const load = new Load(this.#app.port, modes, rate)
    try {
      const period = async (from: number): Promise<Period> => ({
        ...(await this.#app.ask('phase')),
        told: load.take(),
        seconds: (performance.now() - from) / 1000
      })
      let begun = performance.now()
      let warm: Sight['warm'] = new Map()
      let before: Period | undefined
      if (!fault.atBoot) {
        await load.decided('redis', patience * 1000)
        await sleep(seconds.warm * 1000)
        warm = (await period(begun)).told
        begun = performance.now()
        await sleep(seconds.before * 1000)
        before = await period(begun)
      }
      begun = performance.now()
      const end = await fault.begin(this.#parts)
      const noticed = fault.momentary ? undefined : load.decided('mode', patience * 1000)
      await Promise.all([sleep(seconds.during * 1000), noticed])
      const healing = performance.now()
      const decides = load.decided('redis', patience * 1000)
      const healed = Promise.resolve(end()).then(() => performance.now())
      const during = await period(begun)
      begun = healing
      const recovery = Math.max(0, (await decides) - (await healed))
      await sleep(seconds.after * 1000)
      await load.stop()
      const after = await period(begun)
      return {
        fault,
        terms: this.#terms,
        periods: { ...(before && { before }), during, after },
        warm,
        recovery,
        books: await this.#app.ask('books')
      }
    } finally {
      await load.stop()
    }
  }

  /** Closes the app, whose process has to end by itself. */
  close(): Promise<Ending> {
    return this.#app.close()
  }
}

/** The process of an app. */
export class AppProcess {
  readonly port: number
  readonly #child: ChildProcess
  readonly #exit: Promise<readonly [number | null]>

  private constructor(child: ChildProcess, exit: Promise<readonly [number | null]>, port: number) {
    this.#child = child
    this.#exit = exit
    this.port = port
  }

  static async start(owner: Owner, options: AppOptions): Promise<AppProcess> {
    // Without the test runner's loaders and coverage.
    const env = { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '' }
    const file = fileURLToPath(new URL('app.js', import.meta.url))
    const child = fork(file, [JSON.stringify(options)], {
      env,
      execArgv: ['--enable-source-maps', '--no-warnings']
    })
    owner.teardown(() => child.kill('SIGKILL'))
    const exit = once(child, 'exit') as Promise<[number | null]>
    return new AppProcess(child, exit, (await next(child, exit)) as number)
  }

  async ask<Word extends keyof Answers>(word: Word): Promise<Answers[Word]> {
    this.#child.send(word)
    return (await next(this.#child, this.#exit)) as Answers[Word]
  }

  /** Closes the app and waits until its process has ended by itself. */
  async close(): Promise<Ending> {
    const closed = await this.ask('close')
    const start = performance.now()
    const [code] = await this.#exit
    return { closed, exited: performance.now() - start, code }
  }
}

/** The next message of a process. */
async function next(child: ChildProcess, exit: Promise<readonly [number | null]>): Promise<unknown> {
  const gone = exit.then(([code]) => {
    throw new Error(`the app has ended with ${code}`)
  })
  const [message] = await Promise.race([once(child, 'message'), gone])
  return message
}
