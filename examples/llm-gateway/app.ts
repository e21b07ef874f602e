import { Readable } from 'node:stream'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Decision, QuotaOptions } from 'fastify-quota'
import { authenticate } from '../accounts.js'
import { pretend } from './model.js'
import type { Model } from './model.js'
import { tokensIn } from './tokens.js'

declare module 'fastify' {
  interface FastifyRequest {
    promptTokens: number
  }
}

/** What a client asks. */
interface Ask {
  readonly prompt: string
  readonly max_tokens: number
}

const body = {
  type: 'object',
  required: ['prompt'],
  properties: {
    prompt: { type: 'string', minLength: 1 },
    max_tokens: { type: 'integer', minimum: 1, maximum: 4096, default: 256 }
  }
}

/** A gateway to a language model, which each API key may send so many requests and so many tokens a minute. */
export async function build(
  model: Model = pretend(30),
  options: Pick<QuotaOptions, 'clock'> = {}
): Promise<FastifyInstance> {
  const app = Fastify({ forceCloseConnections: true })
  app.decorateRequest('account', null)
  app.decorateRequest('promptTokens', 0)
  app.addHook('onRequest', authenticate)
  app.addHook('onRequest', async (request, reply) => {
    if (request.account === null) return reply.code(401).send({ error: 'no such API key' })
  })

  await app.register(quota, {
    ...options,
    // Whose key it is, as authentication has found out: never the key as it came.
    identify: { 'api-key': request => request.account?.id },
    policies: {
      rpm: { quota: 60, window: '1m', partition: 'api-key' },
      tpm: { quota: 100_000, window: '1m', unit: 'tokens', partition: 'api-key', cost: mostTokens }
    }
  })

  // The cost is read from the body, so both policies are decided once there is one.
  app.post<{ Body: Ask }>(
    '/chat',
    { schema: { body }, bodyLimit: 500_000, config: { quota: { hook: 'preHandler' } } },
    (request, reply) => {
      reply.header('content-type', 'text/event-stream').header('x-accel-buffering', 'no')
      return reply.send(Readable.from(answer(request, request.body)))
    }
  )

  async function* answer(request: FastifyRequest, { prompt, max_tokens: most }: Ask): AsyncGenerator<string> {
    let produced = 0
    try {
      for await (const token of model(prompt, most)) {
        produced++
        yield event({ token })
      }
    } finally {
      // Charged for the most it could have taken; corrected to what it took, also if the client has left meanwhile.
      await request.quota.settle('tpm', request.promptTokens + produced)
    }
    const usage = { prompt_tokens: request.promptTokens, completion_tokens: produced }
    yield event({ usage, left: left(request.quota) })
    yield 'data: [DONE]\n\n'
  }

  // What is left. It costs nothing.
  app.get('/usage', { config: { quota: false } }, async (request, reply) =>
    reply.send(left(await app.quota.peek(request, ['rpm', 'tpm'])))
  )

  return app
}

/** The prompt, and the longest answer: more than this cannot be spent. */
function mostTokens(request: FastifyRequest): number {
  const { prompt, max_tokens: most } = request.body as Ask
  request.promptTokens = tokensIn(prompt)
  return request.promptTokens + most
}

function left({ limits }: Decision): Readonly<Record<string, number>> {
  return Object.fromEntries(limits.map(({ policy, remaining }) => [policy.name, remaining]))
}

const event = (data: object): string => `data: ${JSON.stringify(data)}\n\n`
