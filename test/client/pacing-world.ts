import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import { paced } from '../../src/client/index.js'
import type { PacedOptions } from '../../src/client/index.js'
import quota from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { injected } from './injected.js'
import type { Sent } from './injected.js'
import { VirtualTime } from './virtual-time.js'

/** A real server and its clients in one time that nobody waits for. */
export interface World {
  readonly time: VirtualTime
  readonly app: FastifyInstance
  readonly sent: readonly Sent[]
  /** What reaches the server, and how long the way takes. */
  readonly network: typeof fetch
}

/** How long the way from a client to the server takes, in milliseconds. */
export type Latency = (time: VirtualTime) => number

export const noNetwork: Latency = () => 0

/** There and back in 10 to 50 ms. */
export const network: Latency = time => 5 + 20 * time.random()

export async function world(
  policies: QuotaOptions['policies'],
  latency: Latency,
  seed: number = 1
): Promise<World> {
  const time = new VirtualTime(seed)
  const app = Fastify() as unknown as FastifyInstance
  await app.register(quota, { clock: () => Math.floor(time.now()), policies })
  app.all('/', async () => 'served')
  await app.ready()
  const sent: Sent[] = []
  return { time, app, sent, network: injected(app, time, () => latency(time), sent) }
}

/** A way to call an API: makes a client, which calls until it is served. */
export type Caller = (world: World) => () => Promise<void>

export const URL_OF_ALL = 'http://api.test/'

/** Tries again after a tenth of a second, whatever it is told. */
export const naive: Caller =
  ({ time, network }) =>
  async () => {
    while ((await network(URL_OF_ALL)).status !== 200) await time.sleep(100)
  }

/** Tries again when `Retry-After` is over, as most clients do. */
export const retrying: Caller =
  ({ time, network }) =>
  async () => {
    for (;;) {
      const response = await network(URL_OF_ALL)
      if (response.status === 200) return
      await time.sleep(Number(response.headers.get('retry-after')) * 1000)
    }
  }

export const pacing =
  (options: PacedOptions = {}): Caller =>
  ({ time, network }) => {
    const api = paced(network, { timing: time, retries: 20, ...options })
    return async () => {
      const response = await api(URL_OF_ALL)
      if (response.status !== 200) throw new Error(`${response.status} after all retries`)
    }
  }

/**
 * The least that is possible for clients that spend what is left at once and then wait the whole seconds of `t`: all of
 * them are one, and it knows without asking what is left.
 */
export function knowing(world: World): Caller {
  const { time, app, network } = world
  let onTheWay = 0
  let until = 0
  let turns = Promise.resolve()
  const look = async (): Promise<void> => {
    for (;;) {
      if (time.passed < until) await time.sleep(until - time.passed)
      const { limits } = await time.whileBusy(async () => app.quota.peek({ ip: '127.0.0.1' }))
      if (limits.every(({ remaining }) => remaining > onTheWay)) return
      const empty = limits.filter(({ remaining }) => remaining === 0)
      const waits = empty.map(({ effectiveWindow }) => Math.ceil(effectiveWindow / 1000) * 1000)
      if (waits.length > 0) until = time.passed + Math.max(...waits)
      else await time.sleep(1)
    }
  }
  return () => async () => {
    turns = turns.then(look).then(() => void onTheWay++)
    await turns
    const arrived = network(URL_OF_ALL)
    void arrived.then(() => onTheWay--)
    await arrived
  }
}

/** What came of it. */
export interface Outcome {
  readonly seconds: number
  readonly served: number
  readonly refused: number
  /** In percent of all requests. */
  readonly refusals: number
}

/** How a client makes its calls: one after the other, or all at once. */
export type Manner = 'in turn' | 'at once'

/** So many clients that make so many calls in all, each a part of them, until all are served. */
export async function run(
  world: World,
  caller: Caller,
  clients: number,
  calls: number,
  manner: Manner
): Promise<Outcome> {
  const work = async (): Promise<void> => {
    const call = caller(world)
    if (manner === 'at once') {
      await Promise.all(Array.from({ length: calls / clients }, call))
      return
    }
    for (let i = 0; i < calls / clients; i++) await call()
  }
  await world.time.run(Promise.all(Array.from({ length: clients }, work)))
  await world.app.close()
  return outcome(world)
}

export function outcome({ time, sent }: World): Outcome {
  const refused = sent.filter(({ status }) => status === 429).length
  return {
    seconds: time.passed / 1000,
    served: sent.length - refused,
    refused,
    refusals: (100 * refused) / sent.length
  }
}
