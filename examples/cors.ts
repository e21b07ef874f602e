import cors from '@fastify/cors'
import Fastify from 'fastify'
import quota, { exposedHeaders } from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Lets a page of another origin read the fields, also those of a refusal. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, { policies: { default: { quota: 2, window: '1m' } } })
  await app.register(cors, { origin: 'https://app.example.com', exposedHeaders })

  app.get('/', () => ({ hello: 'world' }))

  return app
}
