import { writeFile } from 'node:fs/promises'
import swagger from '@fastify/swagger'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** An app whose document tells the quota of its routes. */
export async function build(): Promise<FastifyInstance> {
  const app = Fastify()

  await app.register(quota, { policies: { burst: '20/10s', daily: '5000/1d' } })
  await app.register(swagger, {
    openapi: { info: { title: 'Weather', version: '1.0.0' } },
    transform: app.quota.openapi()
  })

  app.get('/weather', { schema: { response: { 200: WEATHER } } }, () => ({ celsius: 21 }))
  app.get('/openapi.json', { config: { quota: false } }, () => app.swagger())

  return app
}

const WEATHER = {
  description: 'The weather now.',
  type: 'object',
  properties: { celsius: { type: 'number' } }
}

/** Writes the document to a file, for those who do not run the app. */
export async function writeDocument(path: string): Promise<void> {
  const app = await build()
  await app.ready()
  await writeFile(path, JSON.stringify(app.swagger(), null, 2))
  await app.close()
}
