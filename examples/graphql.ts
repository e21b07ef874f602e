import Fastify from 'fastify'
import quota, { firstOf } from 'fastify-quota'
import mercurius from 'mercurius'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { authenticate } from './accounts.js'
import { pointsOf } from './graphql/points.js'
import type { Operation } from './graphql/points.js'

const schema = `
  type Query { authors(first: Int!): [Author!]! }
  type Author { name: String! books(first: Int!): [Book!]! }
  type Book { title: String! }
`

const BOOKS = [{ title: 'The Tombs of Atuan' }, { title: 'The Dispossessed' }, { title: 'Lavinia' }]

const resolvers = {
  Query: { authors: () => [{ name: 'Le Guin' }] },
  Author: { books: (_author: unknown, { first }: { readonly first: number }) => BOOKS.slice(0, first) }
}

/** A GraphQL API where a query costs what it may resolve, and a batch what its queries cost together. */
export async function build(): Promise<FastifyInstance> {
  // Mercurius loads much when it starts, and some machines are slow.
  const app = Fastify({ pluginTimeout: 60_000 })
  app.decorateRequest('account', null)
  app.addHook('onRequest', authenticate)

  await app.register(quota, {
    identify: { user: request => request.account?.id },
    policies: {
      default: { quota: 60, window: '1m' },
      points: {
        quota: 1000,
        window: '1m',
        unit: 'points',
        partition: firstOf('user', 'ip'),
        default: false,
        cost: pointsOfRequest
      }
    }
  })

  await app.register(mercurius, {
    schema,
    resolvers,
    allowBatchedQueries: true,
    // The cost is in the body, so all policies are decided once there is one.
    additionalRouteOptions: {
      bodyLimit: 100_000,
      config: { quota: { also: ['points'], hook: 'preHandler' } }
    }
  })

  return app
}

function pointsOfRequest({ body, query }: FastifyRequest): number {
  const operations = (Array.isArray(body) ? body : [body ?? query]) as readonly (Operation | null)[]
  return operations.reduce((points, operation) => points + pointsOf(operation ?? {}), 0)
}
