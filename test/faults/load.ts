import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import type { Dispatcher } from 'undici'
import type { FailureMode, Source } from '../../src/index.js'

/** What clients of one route were told. */
export interface Told {
  readonly answers: number
  /** Answers by who decided. */
  readonly sources: Readonly<Partial<Record<Source, number>>>
  /** Units that they were admitted, by who admitted them. */
  readonly admitted: Readonly<Partial<Record<Source, number>>>
  readonly statuses: Readonly<Record<string, number>>
  /** Answers that nobody should get, and what was not answered, each once. */
  readonly strays: ReadonlySet<string>
}

interface Tally extends Told {
  answers: number
  readonly sources: Partial<Record<Source, number>>
  readonly admitted: Partial<Record<Source, number>>
  readonly statuses: Record<string, number>
  readonly strays: Set<string>
}

/** Who decides a request: Redis, or the failure mode of the policy. */
export type Decider = 'redis' | 'mode'

interface Watch {
  readonly by: Decider
  readonly since: number
  readonly seen: Map<FailureMode, number>
}

/** Milliseconds between two looks at what is due. */
const TICK = 5
const CONNECTIONS = 128
const CLOSED_SECONDS = 4
const TYPES = 'https://iana.org/assignments/http-problem-types#'

/** Clients who send at a rate, whether they are answered or not, to each route by turns. */
export class Load {
  readonly #pool: Pool
  readonly #modes: readonly FailureMode[]
  readonly #perMillisecond: number
  readonly #timer: NodeJS.Timeout
  readonly #start = performance.now()
  readonly #tallies = new Map<FailureMode, Tally>()
  readonly #waiting = new Set<Promise<void>>()
  readonly #watches = new Set<Watch>()
  #sent = 0

  /** `rate`: requests a second, of all routes together. */
  constructor(port: number, modes: readonly FailureMode[], rate: number) {
    this.#pool = new Pool(`http://127.0.0.1:${port}`, { connections: CONNECTIONS })
    this.#modes = modes
    this.#perMillisecond = rate / 1000
    this.#timer = setInterval(() => this.#catchUp(), TICK)
  }

  /** What was told since it was asked last. */
  take(): ReadonlyMap<FailureMode, Told> {
    const told = new Map(this.#tallies)
    this.#tallies.clear()
    return told
  }

  /**
   * Waits until Redis, or the failure mode, has decided a request of each route that is sent from now on, not for ever.
   * Returns when that was, or `Infinity`.
   */
  async decided(by: Decider, patience: number): Promise<number> {
    const watch = { by, since: performance.now(), seen: new Map<FailureMode, number>() }
    this.#watches.add(watch)
    while (watch.seen.size < this.#modes.length) {
      if (performance.now() > watch.since + patience) return Infinity
      await sleep(TICK)
    }
    this.#watches.delete(watch)
    return Math.max(...watch.seen.values())
  }

  /** Sends no more, and waits for the answers. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    await Promise.all(this.#waiting)
    if (!this.#pool.closed) await this.#pool.close()
  }

  #catchUp(): void {
    const due = Math.floor((performance.now() - this.#start) * this.#perMillisecond)
    for (; this.#sent < due; this.#sent++) {
      const asked = this.#ask(this.#modes[this.#sent % this.#modes.length]!)
      this.#waiting.add(asked)
      void asked.then(() => this.#waiting.delete(asked))
    }
  }

  async #ask(mode: FailureMode): Promise<void> {
    const sent = performance.now()
    try {
      const response = await this.#pool.request({ method: 'GET', path: `/${mode}` })
      const body = await response.body.text()
      this.#note(mode, response, body, sent)
    } catch (error) {
      this.#tally(mode).strays.add(`no answer: ${String(error)}`)
    }
  }

  #note(mode: FailureMode, response: Dispatcher.ResponseData, body: string, sent: number): void {
    const { statusCode, headers } = response
    const source = headers['x-source'] as Source
    const tally = this.#tally(mode)
    tally.answers++
    tally.sources[source] = (tally.sources[source] ?? 0) + 1
    tally.statuses[statusCode] = (tally.statuses[statusCode] ?? 0) + 1
    if (statusCode === 200) tally.admitted[source] = (tally.admitted[source] ?? 0) + 1
    const stray = strayIn(mode, response, body)
    if (stray !== undefined) tally.strays.add(stray)
    const decider = source === 'redis' ? 'redis' : 'mode'
    for (const { by, since, seen } of this.#watches) {
      if (by === decider && sent >= since && !seen.has(mode)) seen.set(mode, performance.now())
    }
  }

  #tally(mode: FailureMode): Tally {
    const known = this.#tallies.get(mode)
    if (known !== undefined) return known
    const tally: Tally = { answers: 0, sources: {}, admitted: {}, statuses: {}, strays: new Set() }
    this.#tallies.set(mode, tally)
    return tally
  }
}

/** What is wrong with an answer. */
export function strayIn(
  mode: FailureMode,
  { statusCode, headers }: Pick<Dispatcher.ResponseData, 'statusCode' | 'headers'>,
  body: string
): string | undefined {
  const source = String(headers['x-source'])
  const told = `${statusCode} by ${source} on ${mode}`
  const fields = ['ratelimit', 'ratelimit-policy'].filter(name => headers[name] !== undefined).length
  if (source !== 'redis' && source !== mode) return `${told}: nobody asked for that`
  const expected = expectedOf(source, mode)[statusCode]
  if (expected === undefined) return `${told}: ${body.slice(0, 200)}`
  if (fields !== expected.fields) return `${told} with ${fields} fields`
  const wait = Number(headers['retry-after'] ?? 0)
  if (!expected.wait(wait)) return `${told} with the wait ${wait}`
  return expected.problem === undefined || isProblem(body, headers['content-type'], expected.problem)
    ? undefined
    : `${told} without a problem document: ${body.slice(0, 200)}`
}

interface Expected {
  readonly fields: number
  readonly wait: (seconds: number) => boolean
  readonly problem?: string
}

/** What each source may say, by status. */
function expectedOf(source: string, mode: FailureMode): Readonly<Record<number, Expected>> {
  const none = (wait: number): boolean => wait === 0
  const served = { fields: source === 'redis' ? 2 : 0, wait: none }
  const refused = { fields: 2, wait: (wait: number) => wait >= 1, problem: 'quota-exceeded' }
  if (source === 'redis' || (source === 'local' && mode === 'local')) return { 200: served, 429: refused }
  if (source === 'open') return { 200: served }
  const soon = (wait: number): boolean => wait >= 1 && wait <= CLOSED_SECONDS
  return { 503: { fields: 0, wait: soon, problem: 'temporary-reduced-capacity' } }
}

function isProblem(body: string, type: unknown, problem: string): boolean {
  if (!String(type).startsWith('application/problem+json')) return false
  try {
    return (JSON.parse(body) as { readonly type?: unknown }).type === TYPES + problem
  } catch {
    return false
  }
}
