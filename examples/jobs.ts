import { setTimeout as sleep } from 'node:timers/promises'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import type { Decision } from 'fastify-quota'

/** A letter that waits to be sent. */
export interface Letter {
  readonly tenant: string
  readonly to: string
}

/** An API that sends letters, and workers that send them too: each tenant has one quota for both. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, {
    identify: { tenant: request => request.headers['x-tenant']?.toString() },
    policies: {
      letters: { quota: 5, window: '1s', unit: 'letters', partition: 'tenant' }
    }
  })

  app.post('/letters', () => ({ sent: true }))

  return app
}

/** Works through a queue as fast as the quota of each tenant allows. `signal` ends it between two letters. */
export async function work(
  app: FastifyInstance,
  queue: AsyncIterable<Letter> | Iterable<Letter>,
  send: (letter: Letter) => Promise<void>,
  signal: AbortSignal
): Promise<void> {
  for await (const letter of queue) {
    await untilAdmitted(app, letter.tenant, signal)
    await send(letter)
  }
}

async function untilAdmitted(app: FastifyInstance, tenant: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    const decision = await app.quota.consume({ tenant }, { letters: 1 })
    if (decision.outcome === 'allowed') return
    // What is told is true: who comes back then is admitted, unless somebody else was there first.
    await sleep(waitOf(decision), undefined, { signal })
  }
}

/** Milliseconds; a tenth of a second at least, also where nobody knows. */
function waitOf({ limits, retryAfter }: Decision): number {
  return Math.max(100, retryAfter ?? 0, ...limits.map(limit => limit.retryAfter))
}
