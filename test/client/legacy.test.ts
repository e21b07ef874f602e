import t from 'tap'
import { readLegacy } from '../../src/client/legacy.js'
import type { Told } from '../../src/client/told.js'

const now = Date.UTC(2026, 10, 30, 12)

type Fields = Readonly<Record<string, string>>

function readFields(fields: Fields): readonly Partial<Told>[] {
  const told = readLegacy({ status: 200, field: name => fields[name] }, { date: undefined, now })
  return told.map(({ partitionKey, ...said }) => {
    t.equal(partitionKey, '')
    return Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined))
  })
}

const forms: Readonly<Record<string, readonly [Fields, readonly Partial<Told>[]]>> = {
  'draft 07': [
    { ratelimit: 'limit=100, remaining=50, reset=30', 'ratelimit-policy': '100;w=60, 1000;w=3600' },
    [
      {
        policy: 'ratelimit',
        unit: 'requests',
        quota: 100,
        window: 60_000,
        available: 50,
        effectiveWindow: 30_000
      }
    ]
  ],
  'draft 07 without a policy': [
    { ratelimit: 'limit=100, remaining=50, reset=30' },
    [{ policy: 'ratelimit', unit: 'requests', quota: 100, available: 50, effectiveWindow: 30_000 }]
  ],
  'draft 06': [
    {
      'ratelimit-limit': '100',
      'ratelimit-remaining': '99',
      'ratelimit-reset': '50',
      'ratelimit-policy': '100;w=60'
    },
    [
      {
        policy: 'ratelimit',
        unit: 'requests',
        quota: 100,
        window: 60_000,
        available: 99,
        effectiveWindow: 50_000
      }
    ]
  ],
  'draft 03, with the policies in the limit': [
    {
      'ratelimit-limit': '10, 10;w=1;name="per-ip", 1000;w=3600',
      'ratelimit-remaining': '9',
      'ratelimit-reset': '1'
    },
    [{ policy: 'ratelimit', unit: 'requests', quota: 10, available: 9, effectiveWindow: 1000 }]
  ],
  'X-RateLimit-* with a delta': [
    { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '9', 'x-ratelimit-reset': '60' },
    [{ policy: 'x-ratelimit', unit: 'requests', quota: 10, available: 9, effectiveWindow: 60_000 }]
  ],
  'X-RateLimit-* with an epoch, which is over a second later': [
    {
      'x-ratelimit-limit': '5000',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': String(now / 1000 + 60)
    },
    [{ policy: 'x-ratelimit', unit: 'requests', quota: 5000, available: 0, effectiveWindow: 61_000 }]
  ],
  'X-RateLimit-* with both, of which the delta is exact': [
    {
      'x-ratelimit-limit': '5',
      'x-ratelimit-remaining': '4',
      'x-ratelimit-reset': '1470173023',
      'x-ratelimit-reset-after': '1.5'
    },
    [{ policy: 'x-ratelimit', unit: 'requests', quota: 5, available: 4, effectiveWindow: 1500 }]
  ],
  'X-Rate-Limit-*, with the other hyphen': [
    { 'x-rate-limit-limit': '180', 'x-rate-limit-remaining': '0', 'x-rate-limit-reset': '900' },
    [{ policy: 'x-rate-limit', unit: 'requests', quota: 180, available: 0, effectiveWindow: 900_000 }]
  ],
  'fractions of requests': [
    { 'x-ratelimit-remaining': '594.7', 'x-ratelimit-reset': '12' },
    [{ policy: 'x-ratelimit', unit: 'requests', available: 594, effectiveWindow: 12_000 }]
  ],
  'an LLM API, in requests and tokens': [
    {
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-limit-tokens': '150000',
      'x-ratelimit-remaining-requests': '59',
      'x-ratelimit-remaining-tokens': '149984',
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-reset-tokens': '6m0s'
    },
    [
      { policy: 'x-ratelimit-requests', unit: 'requests', quota: 60, available: 59, effectiveWindow: 1000 },
      {
        policy: 'x-ratelimit-tokens',
        unit: 'tokens',
        quota: 150_000,
        available: 149_984,
        effectiveWindow: 360_000
      }
    ]
  ],
  'an LLM API that names the unit first, and a moment': [
    {
      'anthropic-ratelimit-input-tokens-limit': '1000',
      'anthropic-ratelimit-input-tokens-remaining': '0',
      'anthropic-ratelimit-input-tokens-reset': '2026-11-30T12:00:30Z'
    },
    [
      {
        policy: 'anthropic-ratelimit-input-tokens',
        unit: 'input-tokens',
        quota: 1000,
        available: 0,
        effectiveWindow: 30_000
      }
    ]
  ],
  'an LLM API that does not know': [
    {
      'x-ratelimit-remaining-tokens': '-1',
      'x-ratelimit-limit-tokens': '-1',
      'x-ratelimit-reset-tokens': '0'
    },
    []
  ],
  'numbers alone': [
    { 'x-ratelimit-limit': 'many', 'x-ratelimit-remaining': '3', 'x-ratelimit-reset': 'soon' },
    [{ policy: 'x-ratelimit', unit: 'requests', available: 3 }]
  ],
  'a limit without what is left': [{ 'x-ratelimit-limit': '10', 'x-ratelimit-reset': '60' }, []],
  'draft 07 that is malformed': [{ ratelimit: 'limit=100, remaining=many, reset=30' }, []],
  'draft 07 with negative numbers': [{ ratelimit: 'limit=100, remaining=-1, reset=30' }, []],
  nothing: [{}, []]
}

for (const [form, [fields, expected]] of Object.entries(forms)) {
  t.test(`reads ${form}`, async t => {
    t.strictSame(readFields(fields), expected)
  })
}

t.test('a policy of draft 06 without a window has none', async t => {
  for (const policy of ['100', '100;w=0', '100;w=1.5', '99;w=60', 'x', '100;w=']) {
    const [told] = readFields({ ratelimit: 'limit=100, remaining=1, reset=1', 'ratelimit-policy': policy })
    t.equal(told?.window, undefined, policy)
  }
})
