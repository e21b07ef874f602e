import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'
import { authenticate } from './accounts.js'

/** Tells the clients of a language model what they have left, as they and their SDKs can use it. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()
  app.decorateRequest('account', null)
  app.addHook('onRequest', authenticate)

  await app.register(quota, {
    identify: { tenant: request => request.account?.tenant },
    policies: {
      rpm: { quota: 60, window: '1m', partition: 'tenant' },
      rpd: { quota: 5000, window: '1d', partition: 'tenant' },
      tpm: { quota: 100_000, window: '1m', partition: 'tenant', unit: 'tokens', cost: 2000 }
    },
    // Of each unit the policy closest to its end, and no invitation to more than 1000 tokens a second.
    select: 'closest',
    cap: { tokens: 1000 },
    // Who has to wait is told up to two seconds more, each client always as many.
    jitter: '2s',
    // Whose quota it is, by a name that the client knows.
    partitionKey: request => request.account?.tenant ?? 'visitor',
    // Fields that SDKs of language models read, and a word to them not to retry by rules of their own.
    legacy: 'llm',
    sdkHints: true
  })

  app.get('/', () => ({ answer: 42 }))

  return app
}
