import { Agent, RetryAgent, interceptors, request } from 'undici'
import type { Dispatcher } from 'undici'
import { demandServed, packaged } from '../client.js'
import type { Client } from '../client.js'

const undici = (name: string, dispatcher: () => Dispatcher): Client =>
  packaged({
    name,
    packages: ['undici'],
    reads: ['Retry-After'],
    legacy: false,
    longWaits: 'waits 30 s at most (maxTimeout)',
    call: async (url, signal) => {
      const client = dispatcher()
      try {
        const { statusCode, body } = await request(url, { dispatcher: client, signal })
        await body.dump()
        demandServed(statusCode)
      } finally {
        await client.destroy()
      }
    }
  })

export const retryAgent: Client = undici('undici RetryAgent', () => new RetryAgent(new Agent()))

export const retryInterceptor: Client = undici('undici interceptors.retry', () =>
  new Agent().compose(interceptors.retry())
)
