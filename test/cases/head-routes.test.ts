import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { QuotaOptions } from '../../src/index.js'
import { ask, fieldCase, inBothStores } from './kit.js'

t.setTimeout(120_000)

const methods = ['GET', 'HEAD', 'GET', 'HEAD', 'GET'] as const

/** Ways in which a route of GET comes to have one of HEAD. */
const routes: Readonly<Record<string, (app: FastifyInstance) => void>> = {
  'made by the framework': app => void app.get('/', async () => 'served'),
  'written by hand': app => {
    app.head('/', async () => '')
    app.get('/', async () => 'served')
  },
  'written beside': app =>
    void app.route({ method: ['GET', 'HEAD'], url: '/', handler: async () => 'served' }),
  'made by the framework, with a quota of its own': app => {
    const config = { quota: { cost: 1 } }
    app.get('/', { config }, async () => 'served')
    app.get('/other', { config }, async () => 'another with the same configuration')
  }
}

const policies: Readonly<Record<string, QuotaOptions['policies']>> = {
  'by address': { any: '4/1m' },
  'by route': { any: { quota: 4, window: '1m', partition: 'route' } }
}

fieldCase('C64', 'HEAD costs what GET costs, once, and of the same quota', t =>
  inBothStores(t, async (t, serve) => {
    for (const [how, declare] of Object.entries(routes)) {
      for (const [whose, options] of Object.entries(policies)) {
        const { app } = await serve(options, { routes: declare })
        await app.quota.reset({ ip: '127.0.0.1', route: 'GET /' })
        const told: unknown[] = []
        for (const method of methods) {
          const { status, limits, body } = await ask(app, { method })
          told.push([status, limits[0]!['r']])
          if (method === 'HEAD') t.equal(body, '')
        }
        const counted = [
          [200, 3],
          [200, 2],
          [200, 1],
          [200, 0],
          [429, 0]
        ]
        t.strictSame(told, counted, `${how}, counted ${whose}`)
      }
    }
  })
)
