import { readFileSync } from 'node:fs'
import t from 'tap'
import * as client from 'fastify-quota/client'
import * as testing from 'fastify-quota/client/testing'

const declared = (name: string): readonly string[] => {
  const text = readFileSync(new URL(`../../src/client/${name}.d.ts`, import.meta.url), 'utf8')
  return [...text.matchAll(/^export type \{ (.*) \}/gm)]
    .flatMap(([, names = '']) => names.split(', '))
    .toSorted()
}

t.test('the client exports these values and types, and no other', async t => {
  t.strictSame(Object.keys(client).toSorted(), [
    'QuotaOptionError',
    'QuotaQueueError',
    'QuotaWaitError',
    'paced',
    'pacedInterceptor',
    'parseRateLimit',
    'parseRateLimitPolicy'
  ])
  t.strictSame(declared('index'), [
    'ClientDuration',
    'Costs',
    'Fetch',
    'FieldValue',
    'Interceptor',
    'Keys',
    'OutgoingRequest',
    'PacedOptions',
    'RateLimitItem',
    'RateLimitPolicyItem',
    'RefusedEvent',
    'Timing',
    'WaitEvent'
  ])
})

t.test('the mock server comes on its own', async t => {
  t.strictSame(Object.keys(testing), ['mockServer'])
  t.strictSame(declared('testing/index'), ['Answer', 'AnswerName', 'MockRequest', 'MockServer'])
})
