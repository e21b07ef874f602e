import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import type { PolicyOptions } from 'fastify-quota'

/** What a policy says, as the plugin has understood it. */
interface Terms {
  readonly quota: number
  /** Milliseconds. */
  readonly window: number
}

/** An API with one policy, as the page is told of it. */
export interface Trial extends Terms {
  readonly url: string
}

/** Why there is no trial: a sentence. */
export interface Mistake {
  readonly mistake: string
}

/** What a page can draw, and what people in front of it wait for. */
const LARGEST_QUOTA = 100
const LONGEST_WINDOW = 10_000
const BOUNDS = `the playground takes a quota of 1 to ${LARGEST_QUOTA} and a window of at most ${LONGEST_WINDOW / 1000} s`

/** For the pages that are open. */
const KEPT = 20

/** APIs with one policy each, as people choose them. The oldest goes when there are too many. */
export class Trials {
  readonly #apps = new Map<string, FastifyInstance>()
  #opened = 0

  async open(policy: PolicyOptions): Promise<Trial | Mistake> {
    const url = `/trials/${++this.#opened}`
    const app = Fastify()
    try {
      const terms = await limit(app, url, policy)
      await this.#keep(url, app)
      return { url, ...terms }
    } catch (error) {
      await app.close()
      return { mistake: (error as Error).message }
    }
  }

  get(url: string): FastifyInstance | undefined {
    return this.#apps.get(url)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#apps.values()].map(app => app.close()))
  }

  async #keep(url: string, app: FastifyInstance): Promise<void> {
    this.#apps.set(url, app)
    for (const [old, forgotten] of [...this.#apps].slice(0, -KEPT)) {
      this.#apps.delete(old)
      await forgotten.close()
    }
  }
}

/** Milliseconds of the epoch that never go back, which is what the plugin counts by too. */
export const clock = (): number => Math.floor(performance.timeOrigin + performance.now())

/** Gives an app one route with a policy, whose answers say when they were decided. Rejects if that is no policy. */
async function limit(app: FastifyInstance, url: string, policy: PolicyOptions): Promise<Terms> {
  let now = 0
  app.addHook('onRequest', (_request, reply, done) => {
    // Read once for both: what the page is told is the very time that the plugin counts by.
    now = clock()
    reply.header('x-decided-at', now)
    done()
  })
  await app.register(quota, { clock: () => now, policies: { playground: policy } })
  app.get(url, () => 'served')
  await app.ready()

  const { quota: units, window = Infinity } = app.quota.routes().routes[0]!.policies[0]!
  if (typeof units !== 'number' || units < 1 || units > LARGEST_QUOTA || window > LONGEST_WINDOW) {
    throw new RangeError(BOUNDS)
  }
  return { quota: units, window }
}
