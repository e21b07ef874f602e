import type { Later } from '../../later.js'
import { Breaker } from '../guard/breaker.js'
import { Deadlines } from '../guard/deadlines.js'
import type { Attempt } from '../guard/deadlines.js'
import { ServerTime } from '../guard/server-time.js'
import { decode } from './command.js'
import type { Command, Operation, Reply } from './command.js'
import type { ScriptClient } from './script-client.js'
import { StoreFailure, diagnose, withoutEffect } from '../guard/failure.js'
import type { Timing } from '../guard/timing.js'

/** Told what happens to a server. */
export type Told = (state: 'up' | 'down' | 'fault', code: string, node: string | undefined) => void

/** Told of each call: `OK` or the code of what failed; milliseconds it took, `undefined` if nothing was sent. */
export type Asked = (operation: Operation, code: string, took: number | undefined) => void

/** Told of a reply that comes when nobody waits for it any more. */
export type Late = (reply: Reply) => void

/** Calls that are waited for at once; more would wait for nothing but each other. */
const IN_FLIGHT = 1000

/** A mistake is told at most once in so many milliseconds. */
const REPORT_EVERY = 60_000

/** What this process knows about one server: whether it answers, and what time it is there. */
interface Guard {
  readonly breaker: Breaker
  readonly time: ServerTime
}

/** One call: what it is for, and who waits for it. */
interface Call {
  readonly command: Command
  readonly guard: Guard
  readonly generation: number
  readonly attempt: Attempt
  readonly late: Late | undefined
  /** Takes the result, once; from then on it is late. */
  readonly conclude: (result: Reply | StoreFailure) => void
  waiting: boolean
}

/**
 * Calls of the script that end with their deadline. A server that does not answer is left alone until a probe finds it well.
 * No call ever rejects: what fails is a {@link StoreFailure}.
 */
export class GuardedCalls {
  readonly #client: ScriptClient
  readonly #clock: (() => number) | undefined
  readonly #told: Told
  readonly #timing: Timing
  readonly #asked: Asked
  readonly #deadlines: Deadlines
  /** By the node of a cluster. */
  readonly #guards = new Map<string | undefined, Guard>()
  readonly #faults = new Map<string, number>()
  #inFlight = 0

  /** `deadline` in milliseconds; `clock` is the caller's, and `undefined` if the server's is asked. */
  constructor(
    client: ScriptClient,
    deadline: number,
    clock: (() => number) | undefined,
    told: Told,
    timing: Timing,
    asked: Asked = () => {}
  ) {
    this.#client = client
    this.#clock = clock
    this.#told = told
    this.#timing = timing
    this.#asked = asked
    this.#deadlines = new Deadlines(deadline, timing)
  }

  /** Begins a decision: all its calls have to be answered before its deadline. */
  begin(): Attempt {
    return this.#deadlines.begin()
  }

  /** Calls the script: a failure at once, if it is of no use to call it. Without an attempt, it is a decision of its own. */
  call(command: Command, late?: Late, attempt?: Attempt): Later<Reply | StoreFailure> {
    if (this.#client.closed) return withoutEffect('CLOSED')
    const guard = this.#guardOf(command.keys[0]!)
    const failure = this.#hopeless(guard, attempt)
    if (failure === undefined) return this.#ask(command, guard, attempt, late)
    this.#asked(command.operation, failure.code, undefined)
    return failure
  }

  /** A failure, if the server of a key is left alone. */
  down(key: string): StoreFailure | undefined {
    const { breaker } = this.#guardOf(key)
    return breaker.down ? leftAlone(breaker) : undefined
  }

  /** Whether any server is left alone. */
  get leaveAlone(): boolean {
    for (const { breaker } of this.#guards.values()) if (breaker.down) return true
    return false
  }

  /** Asks the server of these keys whether it is well; if it is not, it is left alone. */
  async greet(keys: readonly string[]): Promise<void> {
    if (this.#client.closed) return
    const guard = this.#guardOf(keys[0]!)
    const code = await this.#probe(guard, keys)
    if (code !== undefined) guard.breaker.trip(code)
  }

  /** Probes all servers that are left alone: there is a new connection. */
  hasten(): void {
    for (const { breaker } of this.#guards.values()) breaker.hasten()
  }

  close(): void {
    for (const { breaker } of this.#guards.values()) breaker.close()
    this.#guards.clear()
    this.#deadlines.close()
  }

  #hopeless({ breaker }: Guard, attempt: Attempt | undefined): StoreFailure | undefined {
    if (breaker.down) return leftAlone(breaker)
    if (attempt?.over === true) return withoutEffect('TIMEOUT')
    if (!this.#client.ready) {
      breaker.failed(breaker.generation, this.#client.lastError)
      return withoutEffect(this.#client.lastError, breaker.retryAfter)
    }
    return this.#inFlight >= IN_FLIGHT ? withoutEffect('SHED') : undefined
  }

  #ask(command: Command, guard: Guard, shared?: Attempt, late?: Late): Promise<Reply | StoreFailure> {
    const { generation } = guard.breaker
    const attempt = shared ?? this.begin()
    const begun = this.#timing.now()
    this.#inFlight++
    return new Promise(resolve => {
      const call: Call = {
        command,
        guard,
        generation,
        attempt,
        late,
        waiting: true,
        conclude: result => {
          off()
          if (shared === undefined) attempt.done()
          call.waiting = false
          this.#inFlight--
          const code = result instanceof StoreFailure ? result.code : 'OK'
          this.#asked(command.operation, code, this.#timing.now() - begun)
          resolve(result)
        }
      }
      const off = attempt.whenOver(() => this.#fail(call, new StoreFailure('TIMEOUT')))
      this.#send(call, true)
    })
  }

  #send(call: Call, again: boolean): void {
    const sent = this.#timing.now()
    const fenced = this.#clock === undefined && !call.command.patient
    const fence = fenced ? call.guard.time.at(call.attempt.due) : 0
    this.#client.execute(call.command, this.#clock?.() ?? 0, fence).then(
      (answer: unknown) => {
        const reply = decode(answer, call.command.numbers)
        if (reply === undefined) this.#reject(call, new StoreFailure('REPLY', 'fault'))
        else this.#take(call, reply, sent, again)
      },
      (error: unknown) => this.#reject(call, diagnose(error))
    )
  }

  #take(call: Call, reply: Reply, sent: number, again: boolean): void {
    const { guard, generation, late, waiting } = call
    const received = this.#timing.now()
    if (reply.fenced) {
      // It came in time, so what was known of the server's time is wrong.
      guard.time.relearn(reply.now, sent, received)
      if (!waiting) return
      return again ? this.#send(call, false) : this.#fail(call, withoutEffect('FENCED'))
    }
    guard.time.learn(reply.now, sent, received)
    if (!waiting) return late?.(reply)
    guard.breaker.succeeded(generation)
    call.conclude(reply)
  }

  #reject(call: Call, failure: StoreFailure): void {
    if (failure.kind === 'fault') this.#report(failure.code)
    if (!call.waiting) return
    if (failure.kind === 'fault') call.conclude(failure)
    else this.#fail(call, failure)
  }

  #fail({ guard: { breaker }, generation, conclude }: Call, { code, kind, effect }: StoreFailure): void {
    breaker.failed(generation, code)
    conclude(new StoreFailure(code, kind, breaker.retryAfter, effect))
  }

  #guardOf(key: string): Guard {
    const node = this.#client.nodeOf(key)
    const known = this.#guards.get(node)
    if (known !== undefined) return known
    const breaker: Breaker = new Breaker(
      () => this.#probe(guard, [key]),
      (state, code) => this.#told(state, code, node),
      this.#timing
    )
    const guard: Guard = { breaker, time: new ServerTime() }
    this.#guards.set(node, guard)
    return guard
  }

  /** The code of what is wrong with a server. A fault is not: it answers, and no time mends it. */
  async #probe(guard: Guard, keys: readonly string[]): Promise<string | undefined> {
    if (!this.#client.ready) return this.#client.lastError
    if (guard.breaker.down) this.#client.rediscover()
    const command: Command = {
      operation: 'probe',
      keys: keys.map(probed),
      fields: 0,
      items: [],
      patient: false,
      numbers: 0
    }
    const reply = await this.#ask(command, guard)
    return reply instanceof StoreFailure && reply.kind === 'outage' ? reply.code : undefined
  }

  #report(code: string): void {
    const now = this.#timing.now()
    if (now - (this.#faults.get(code) ?? -Infinity) < REPORT_EVERY) return
    this.#faults.set(code, now)
    this.#told('fault', code, undefined)
  }
}

const leftAlone = ({ retryAfter }: Breaker): StoreFailure => withoutEffect('DOWN', retryAfter)

/** A key beside another one, in the same slot of a cluster. */
const probed = (key: string): string => `${key}:probe`
