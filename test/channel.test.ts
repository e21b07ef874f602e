import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import type { Decision } from '../src/index.js'
import { serve } from './plugin/kit.js'

interface Message {
  readonly decision: Decision
  readonly request: FastifyRequest | undefined
}

/** What is published, from now to the end of the test. */
function watch(t: Test): Message[] {
  const messages: Message[] = []
  const listen = (message: unknown): void => void messages.push(message as Message)
  subscribe('fastify-quota:decision', listen)
  t.teardown(() => unsubscribe('fastify-quota:decision', listen))
  return messages
}

const names = ({ decision }: Message): readonly string[] => decision.limits.map(({ policy }) => policy.name)

t.test('every decision about a request is published, allowed and refused', async t => {
  const messages = watch(t)
  const { app, statuses } = await serve(t, { any: '1/1m' })
  let request: FastifyRequest | undefined
  app.addHook('onRequest', async current => void (request ??= current))
  await statuses('/', '/')
  t.strictSame(
    messages.map(({ decision }) => decision.outcome),
    ['allowed', 'refused']
  )
  t.equal(messages[0]?.request, request)
  t.not(messages[1]?.request, request)
  t.strictSame(Object.keys(messages[0]!), ['decision', 'request', 'store'])
})

t.test('each stage is a decision of its own', async t => {
  const messages = watch(t)
  const { app } = await serve(t, {
    first: { quota: 1, window: '1m', hook: 'onRequest' },
    second: '0/1m'
  })
  await app.inject('/')
  t.strictSame(messages.map(names), [['first'], ['second']])
  t.strictSame(
    messages.map(({ decision }) => decision.outcome),
    ['allowed', 'refused']
  )
})

t.test('what consume decides is published, with the request if it is about one', async t => {
  const messages = watch(t)
  const { app } = await serve(t, { any: { quota: 1, window: '1m', default: false } })
  app.get('/consume', async request => {
    const decision = await app.quota.consume(request, { any: 1 })
    return decision.outcome
  })
  await app.inject('/consume')
  await app.quota.consume({ ip: '127.0.0.1' }, { any: 1 })
  t.strictSame(
    messages.map(({ decision, request }) => [decision.outcome, request?.url]),
    [
      ['allowed', '/consume'],
      ['refused', undefined]
    ]
  )
})

t.test('reservations are published, settlements are none', async t => {
  const messages = watch(t)
  const { app } = await serve(t, {
    tokens: { quota: 5, window: '1m', default: false },
    off: { quota: 5, window: '1m', exempt: () => true }
  })
  app.get('/reserve', async ({ quota }) => {
    const reservation = await quota.reserve('tokens', 4)
    await quota.reserve('off', 9)
    await reservation.settle(2)
    await quota.spend('tokens', 1).catch(() => {})
  })
  const { app: other } = await serve(t, { any: { quota: 5, window: '1m', default: false } })
  await app.inject('/reserve').catch(() => {})
  await (await other.quota.reserve({ ip: '127.0.0.1' }, 'any', 6)).release()
  t.strictSame(
    messages.map(({ decision, request }) => [decision.outcome, decision.exempt, request?.url]),
    [
      ['allowed', ['off'], '/reserve'],
      ['allowed', [], '/reserve'],
      ['allowed', ['off'], '/reserve'],
      ['refused', [], undefined]
    ]
  )
})

t.test('nothing is published when nothing is decided', async t => {
  const messages = watch(t)
  const { app, statuses } = await serve(t, { any: '9/1m' })
  app.get('/free', { config: { quota: false } }, async () => 'free')
  const headers = { origin: 'https://app.example', 'access-control-request-method': 'GET' }
  await statuses('/free', { method: 'OPTIONS', url: '/', headers }, '/%E0%A4%A')
  await app.quota.peek({ ip: '127.0.0.1' })
  await app.quota.reset({ ip: '127.0.0.1' })
  await t.rejects(app.quota.consume({}, { any: 1 }))
  t.strictSame(messages, [])
})

t.test('shadow decisions and exemptions are published too', async t => {
  const messages = watch(t)
  const { app } = await serve(t, {
    trial: { quota: 0, window: '1m', mode: 'shadow' },
    off: { quota: 0, window: '1m', exempt: () => true }
  })
  await app.inject('/')
  t.match(messages[0]?.decision, {
    outcome: 'allowed',
    limits: [],
    exempt: ['off'],
    shadow: [{ policy: 'trial', wouldRefuse: true }]
  })
})
