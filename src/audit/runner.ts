import type { Attack, Send } from './attacks.js'
import { findEdge } from './edge.js'
import { exchange } from './exchange.js'
import type { Exchange } from './exchange.js'
import { longestWait } from './plan.js'
import type { Plan, PlannedAttack } from './plan.js'
import type { Progress } from './progress.js'
import type { Outgoing, World } from './world.js'

/** An attack that was run. Exchanges are in the order in which they were sent. */
export interface Run {
  readonly attack: Attack
  readonly exchanges: readonly Exchange[]
  /** Sentences about what went otherwise than planned. */
  readonly notes: readonly string[]
}

/** Asks once, so that the answer tells what is promised. */
export async function probe(world: World, usual: Outgoing): Promise<Exchange> {
  const planned = world.now()
  return exchange(usual, { at: 0 }, planned, await world.send(usual), undefined)
}

/** What to run. */
export interface Orders {
  readonly plan: Plan
  /** The request that attacks send. */
  readonly usual: Outgoing
  /** The request that asked for the promise. */
  readonly first: Exchange
  readonly onProgress: (progress: Progress) => void
}

/** Runs one attack after the other, each from idleness. */
export async function runAll(world: World, orders: Orders): Promise<readonly Run[]> {
  const { attacks } = orders.plan
  const runs: Run[] = []
  const runner = new Runner(world, orders)
  for (const [index, planned] of attacks.entries()) runs.push(await runner.run(planned, index))
  orders.onProgress({ stage: 'done', name: '', index: attacks.length, of: attacks.length, remaining: 0 })
  return runs
}

class Runner {
  readonly #world: World
  readonly #orders: Orders
  /** The status of what is let through. */
  readonly #usualStatus: number | undefined
  /** Where the windows of the server have an edge; until one is found, those of the clock. */
  #edge = 0
  /** Milliseconds after which a burst has been counted, as the latest attack has shown. */
  #precision: number
  /** When the last answer arrived. */
  #last: number

  constructor(world: World, orders: Orders) {
    const { first } = orders
    this.#world = world
    this.#orders = orders
    this.#usualStatus = first.outcome === 'admitted' ? first.status : undefined
    this.#precision = world.precision
    this.#last = first.arrived
  }

  async run(planned: PlannedAttack, index: number): Promise<Run> {
    const { attack, sends } = planned
    const report = (stage: 'waiting' | 'attacking', until: number): void =>
      this.#orders.onProgress({
        stage,
        name: attack.name,
        index,
        of: this.#orders.plan.attacks.length,
        remaining: Math.max(0, until - this.#world.now())
      })
    const start = this.#start(attack)
    report('waiting', start)
    await this.#world.until(start)
    report('attacking', start + planned.watches)
    const { exchanges, notes } = await this.#rounds(attack, sends, start)
    this.#last = Math.max(this.#last, ...exchanges.map(({ arrived }) => arrived))
    if (attack.name === 'drained')
      this.#edge = findEdge(exchanges, this.#orders.plan.terms.window) ?? this.#edge
    this.#precision = slowestBurst(exchanges) ?? this.#precision
    return { attack, exchanges, notes }
  }

  /** The first time after idleness that is where in a window it has to be. */
  #start({ idle, start }: Attack): number {
    const { terms } = this.#orders.plan
    const earliest = this.#last + idle * terms.window
    if (start === undefined) return earliest
    const { after, offset } = start({ ...terms, precision: Math.max(1, 1.5 * this.#precision) })
    const place = (after === 'found' ? this.#edge : 0) + offset
    return place + Math.ceil((earliest - place) / terms.window) * terms.window
  }

  async #rounds(
    { rounds = 0 }: Attack,
    sends: readonly Send[],
    start: number
  ): Promise<Pick<Run, 'exchanges' | 'notes'>> {
    const exchanges = await this.#volley(sends, start)
    const notes: string[] = []
    for (let round = 0; round < rounds; round++) {
      if (round > 0) exchanges.push(...(await this.#volley(sends, this.#world.now())))
      const wait = latestRefusal(exchanges)
      const retryAfter = wait?.reading.retryAfter
      if (wait === undefined || retryAfter === undefined) break
      if (retryAfter > longestWait(this.#orders.plan.terms)) {
        notes.push(`was told to wait ${retryAfter / 1000} s, which is longer than the window, and did not`)
        break
      }
      const at = wait.arrived + retryAfter
      await this.#world.until(at)
      exchanges.push(...(await this.#volley([{ at: 0 }], Math.max(at, this.#world.now()))))
    }
    return { exchanges, notes }
  }

  /** Sends all at their times, whether or not those before them have been answered, and waits for all answers. */
  async #volley(sends: readonly Send[], start: number): Promise<Exchange[]> {
    const answers: Promise<Exchange>[] = []
    const counts = new Map<string, number>()
    for (const together of salvoes(sends)) {
      const time = start + together[0]!.at
      if (together.length > 1) {
        await this.#world.until(time - WARM_UP)
        await this.#world.warm(together.length)
      }
      await this.#world.until(time)
      answers.push(...together.map(send => this.#send(send, time, counts)))
    }
    const exchanges = await Promise.all(answers)
    return exchanges.sort((a, b) => a.sent - b.sent || a.arrived - b.arrived)
  }

  async #send(send: Send, planned: number, counts: Map<string, number>): Promise<Exchange> {
    const { way } = send
    const count = counts.get(way?.name ?? '') ?? 0
    counts.set(way?.name ?? '', count + 1)
    const request = way?.request(this.#orders.usual, count) ?? this.#orders.usual
    return exchange(request, send, planned, await this.#world.send(request), this.#usualStatus)
  }
}

function latestRefusal(exchanges: readonly Exchange[]): Exchange | undefined {
  const refused = exchanges.filter(({ outcome }) => outcome === 'refused')
  return refused.toSorted((a, b) => b.arrived - a.arrived)[0]
}

/** Milliseconds before a burst at which connections are opened for it. */
const WARM_UP = 250

/** Requests of the same time. */
function salvoes(sends: readonly Send[]): Send[][] {
  const salvoes: Send[][] = []
  for (const send of sends) {
    if (send.at === salvoes.at(-1)?.[0]!.at) salvoes.at(-1)!.push(send)
    else salvoes.push([send])
  }
  return salvoes
}

/**
 * Milliseconds after which all of a burst were answered, of bursts that were not the first requests; `undefined`: there was
 * none.
 */
function slowestBurst(exchanges: readonly Exchange[]): number | undefined {
  const bursts = exchanges.filter(
    ({ planned, send }, i) => send.at > 0 && exchanges[i - 1]?.planned === planned
  )
  return bursts.length === 0
    ? undefined
    : Math.max(...bursts.map(({ arrived, planned }) => arrived - planned))
}
