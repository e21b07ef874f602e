import { existsSync, readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import type { FastifyInstance } from 'fastify'
import type { PolicyOptions } from 'fastify-quota'
import { Trials, clock } from './trials.js'

/** The files of the page. Browsers take them as they are written, so the compiler leaves them where they are. */
const FOLDER = ['playground/', '../../../examples/first-limits/playground/']
  .map(folder => new URL(folder, import.meta.url))
  .find(folder => existsSync(folder))!

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8'
}

/** A page on which people choose a quota and an attack, and watch what is admitted. It has no quota itself. */
export async function playground(app: FastifyInstance): Promise<void> {
  const free = { config: { quota: false } } as const
  const trials = new Trials()
  app.addHook('onClose', () => trials.close())

  for (const file of readdirSync(FOLDER).filter(file => extname(file) in TYPES)) {
    app.get(file === 'index.html' ? '/' : `/${file}`, free, async (_request, reply) =>
      reply.type(TYPES[extname(file)]!).send(await readFile(new URL(file, FOLDER)))
    )
  }

  app.get('/clock', free, () => String(clock()))

  app.post('/trials', free, async (request, reply) => {
    const trial = await trials.open(request.body as PolicyOptions)
    return reply.code('mistake' in trial ? 400 : 201).send(trial)
  })

  app.get('/trials/:id', free, (request, reply) => {
    const trial = trials.get(request.url)
    if (trial === undefined) return reply.callNotFound()
    // From here on it is that app's request, as if it had come to it from the network.
    reply.hijack()
    trial.routing(request.raw, reply.raw)
  })
}
