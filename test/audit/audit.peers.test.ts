import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import rateLimit from '@fastify/rate-limit'
import { serve } from '@hono/node-server'
import express from 'express'
import { rateLimit as expressRateLimit } from 'express-rate-limit'
import Fastify from 'fastify'
import { Hono } from 'hono'
import { rateLimiter } from 'hono-rate-limiter'
import t from 'tap'
import type { Test } from 'tap'
import { CannotMeasureError, audit } from '../../src/audit/index.js'
import type { AuditResult } from '../../src/audit/index.js'

/*
 * Real servers with the limiters that most people use, and real time. What a busy machine sends too late shows less than
 * there is and never more, so an audit that saw less is tried again.
 */

const QUOTA = 10
const WINDOW = 1000
const TRIES = 6

const PEERS: Readonly<Record<string, (t: Test) => Promise<string>>> = {
  '@fastify/rate-limit': async t => {
    const app = Fastify()
    t.teardown(() => app.close())
    await app.register(rateLimit, { max: QUOTA, timeWindow: WINDOW })
    app.get('/', () => 'served')
    return app.listen({ port: 0, host: '127.0.0.1' })
  },
  'express-rate-limit': async t => {
    const app = express()
    app.use(expressRateLimit({ limit: QUOTA, windowMs: WINDOW, standardHeaders: 'draft-8' }))
    app.get('/', (_request, response) => void response.send('served'))
    const server = app.listen(0, '127.0.0.1')
    t.teardown(() => server.close())
    await once(server, 'listening')
    return origin(server.address())
  },
  'hono-rate-limiter': async t => {
    const app = new Hono()
    app.use(rateLimiter({ limit: QUOTA, windowMs: WINDOW, keyGenerator: () => 'everybody' }))
    app.get('/', context => context.text('served'))
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
    t.teardown(() => void server.close())
    await once(server, 'listening')
    return origin(server.address())
  }
}

t.jobs = 3
for (const [name, start] of Object.entries(PEERS)) {
  t.test(`${name} admits nearly twice its quota, and is recognised as a fixed window`, async t => {
    const url = await start(t)
    const result = await worst(url)
    t.ok(result.worst.excess >= 1.9 && result.worst.excess <= 2, `${result.worst.excess}`)
    t.notOk(result.promiseKept)
    t.match(result.limiter, { kind: 'fixed', title: /^a fixed window/ })
    t.match(result.promise, { quota: QUOTA, window: 1 })
  })
}

async function worst(url: string, tries = TRIES): Promise<AuditResult> {
  try {
    const result = await audit(
      { url },
      { quota: QUOTA, window: `${WINDOW}ms`, attacks: ['drained', 'edge-burst'] }
    )
    const all = result.worst.excess >= 1.9 && result.limiter.kind === 'fixed'
    if (all || tries === 1) return result
  } catch (error) {
    if (!(error instanceof CannotMeasureError) || tries === 1) throw error
  }
  return worst(url, tries - 1)
}

function origin(address: AddressInfo | string | null): string {
  return `http://127.0.0.1:${(address as AddressInfo).port}/`
}
