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

/** The packages and modules of Node.js that a module loads, and those it loads. */
function loaded(module: URL, seen: Set<string> = new Set()): ReadonlySet<string> {
  if (seen.has(module.href)) return seen
  seen.add(module.href)
  for (const [, target = ''] of readFileSync(module, 'utf8').matchAll(/from '([^']+)'/g)) {
    if (target.startsWith('.')) loaded(new URL(target, module), seen)
    else seen.add(target)
  }
  return seen
}

t.test('the client loads no module of Node.js, and undici neither: it runs in browsers', async t => {
  const entry = new URL('../../src/client/index.js', import.meta.url)
  const foreign = [...loaded(entry)].filter(name => !name.startsWith('file:'))
  t.strictSame(foreign, ['fastest-levenshtein'])
})

t.test('the mock server comes on its own', async t => {
  t.strictSame(Object.keys(testing), ['mockServer'])
  t.strictSame(declared('testing/index'), ['Answer', 'AnswerName', 'MockRequest', 'MockServer'])
})
