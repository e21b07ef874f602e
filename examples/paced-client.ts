import { Agent, request } from 'undici'
import { QuotaWaitError, paced, pacedInterceptor, parseRateLimit } from 'fastify-quota/client'
import type { PacedOptions } from 'fastify-quota/client'
import { mockServer } from 'fastify-quota/client/testing'

/** Asks for so many pages at once. They go out as fast as the quota allows, and none is refused. */
export async function everyPage(
  url: string,
  pages: number,
  options: PacedOptions = {}
): Promise<readonly string[]> {
  const api = paced(fetch, options)

  const texts = Array.from({ length: pages }, async (_, page) => {
    const response = await api(`${url}?page=${page}`)
    return response.text()
  })
  return Promise.all(texts)
}

/** Gives up where the quota is used up for long, and says when to come back. */
export async function orLater(url: string): Promise<string> {
  const api = paced(fetch, { maxWait: '30s' })

  try {
    const response = await api(url)
    return await response.text()
  } catch (error) {
    if (error instanceof QuotaWaitError) return `come back at ${error.retryAt.toISOString()}`
    throw error
  }
}

/** A client of a language model: its requests spend tokens, and each key has a quota of its own. */
export function modelClient(keys: readonly string[]): typeof fetch {
  return paced(fetch, {
    cost: ({ body }) => ({ tokens: Math.ceil(String(body).length / 4) + 500 }),
    priority: ({ headers }) => (headers.has('x-background') ? 0 : 1),
    keys: { values: keys, apply: key => ({ authorization: `Bearer ${key}` }) },
    retryMethods: ['GET', 'POST'],
    headroom: 0.8,
    concurrency: 20,
    onWait: ({ policies, until }) =>
      console.log(`waiting for ${policies.join(' and ')} until ${until.toISOString()}`)
  })
}

/** The same for all requests of an undici dispatcher. */
export async function withUndici(url: string): Promise<string> {
  const agent = new Agent().compose(pacedInterceptor())
  const { body } = await request(url, { dispatcher: agent })
  return body.text()
}

/** What a response tells of its quotas. */
export async function whatIsLeft(url: string): Promise<string> {
  const response = await fetch(url)
  const limits = parseRateLimit(response.headers.get('ratelimit')) ?? []
  return limits.map(({ policy, available }) => `${available} of ${policy}`).join(', ')
}

/** How a client behaves when it is refused: how often it came, and how often before its wait was over. */
export async function backsOff(
  client: typeof fetch
): Promise<{ readonly came: number; readonly early: number }> {
  const server = await mockServer([
    { answer: 'requests', retryAfter: 1 },
    { answer: 'early', retryAfter: 1, lasts: 2 }
  ])

  await client(server.url)
  const early = server.requests.filter(request => request.early > 0)

  await server.close()
  return { came: server.requests.length, early: early.length }
}
