import t from 'tap'
import { announced, visible } from '../src/announced.js'
import type { Telling } from '../src/announced.js'
import { UNDECIDED } from '../src/decision.js'
import type { Decision } from '../src/decision.js'
import { compilePolicy } from '../src/policy.js'
import type { QuotaPolicy } from '../src/policy.js'
import type { ServiceLimit } from '../src/store.js'

/** A policy by its name and what is written of it; 100 units a minute if nothing is. */
const policy = (name: string, written: object = {}): QuotaPolicy =>
  compilePolicy(name, { quota: 100, window: '1m', ...written }, [])

const limit = (
  policy: QuotaPolicy,
  remaining: number,
  seconds: number,
  more: Partial<ServiceLimit> = {}
): ServiceLimit => ({
  policy,
  units: 1,
  allowed: true,
  remaining,
  effectiveWindow: seconds * 1000,
  retryAfter: 0,
  delay: 0,
  charges: [],
  ...more
})

const decision = (outcome: Decision['outcome'], ...limits: readonly ServiceLimit[]): Decision => ({
  ...UNDECIDED,
  outcome,
  limits
})

const refused = { allowed: false, retryAfter: 1 } as const

/** What is told, as `name;r;t`. */
function told(telling: Partial<Telling>, decision: Decision): readonly string[] {
  const usual: Telling = { select: 'all', cap: 'long windows', jitter: () => 0 }
  return announced({ ...usual, ...telling }, { whose: () => undefined }, decision).map(
    ({ limit, available, window }) => `${limit.policy.name};${available};${window}`
  )
}

const burst = policy('burst', { window: '10s' })
const hourly = policy('hourly', { window: '1h', algorithm: 'fixed-window' })
const tokens = policy('tokens', { unit: 'tokens' })
const daily = policy('daily-tokens', { unit: 'tokens', window: '1d' })

t.test('of what passed all policies are told, the closest to exhaustion first', async t => {
  const served = decision('allowed', limit(burst, 90, 9), limit(tokens, 5, 3), limit(daily, 50, 43_200))
  t.strictSame(told({}, served), ['tokens;5;3', 'daily-tokens;50;43200', 'burst;90;9'])
  t.strictSame(
    served.limits.map(({ policy }) => policy.name),
    ['burst', 'tokens', 'daily-tokens'],
    'the decision itself keeps its order'
  )
})

t.test('of a refusal those that refused are told', async t => {
  const limits = [limit(burst, 0, 9, refused), limit(tokens, 5, 3), limit(daily, 3, 4, refused)]
  t.strictSame(told({}, decision('refused', ...limits)), ['burst;0;9', 'daily-tokens;3;4'])
})

t.test('an internal policy is never told, whatever is selected', async t => {
  const secret = policy('secret', { advertise: false })
  for (const select of ['all', 'closest'] as const) {
    t.strictSame(told({ select }, decision('allowed', limit(secret, 1, 60), limit(burst, 9, 10))), [
      'burst;9;10'
    ])
    t.strictSame(told({ select }, decision('refused', limit(secret, 0, 60, refused))), [])
  }
  t.strictSame(visible(decision('allowed', limit(secret, 1, 60))), [])
})

t.test('closest tells one policy of each unit', async t => {
  const limits = [
    limit(burst, 90, 9),
    limit(daily, 50, 43_200),
    limit(hourly, 20, 720),
    limit(tokens, 99, 59)
  ]
  t.strictSame(told({ select: 'closest' }, decision('allowed', ...limits)), [
    'hourly;20;720',
    'daily-tokens;50;43200'
  ])
  const refusing = limits.map(each => ({ ...each, ...refused, remaining: 0 }))
  t.strictSame(told({ select: 'closest' }, decision('refused', ...refusing)), [
    'daily-tokens;0;43200',
    'hourly;0;720'
  ])
})

t.test('by default a long fixed window invites to ten times its rate at most', async t => {
  const last = (seconds: number): readonly string[] =>
    told({}, decision('allowed', limit(hourly, 100, seconds)))
  t.strictSame(last(3600), ['hourly;100;3600'])
  t.strictSame(last(360), ['hourly;100;360'])
  t.strictSame(last(359), ['hourly;99;359'])
  t.strictSame(last(36), ['hourly;10;36'])
  t.strictSame(last(1), ['hourly;1;4'], 'never to nothing: the time is longer then')
  t.strictSame(told({}, decision('allowed', limit(hourly, 3, 10))), ['hourly;2;10'])
  t.strictSame(told({}, decision('allowed', limit(hourly, 2, 10))), ['hourly;2;10'])
})

t.test('a window of a minute is not long, and other windows do not end', async t => {
  for (const written of [
    { algorithm: 'fixed-window' },
    { window: '1h' },
    { window: '1h', algorithm: 'token-bucket' }
  ]) {
    t.strictSame(told({}, decision('allowed', limit(policy('any', written), 100, 1))), ['any;100;1'])
  }
  const longer = policy('any', { algorithm: 'fixed-window', window: 61 })
  t.strictSame(told({}, decision('allowed', limit(longer, 100, 1))), ['any;16;1'])
})

t.test('a shorter window of the same unit that is told beside is cap enough', async t => {
  const ending = limit(hourly, 100, 1)
  const cases: readonly (readonly [why: string, beside: ServiceLimit, capped: boolean])[] = [
    ['a shorter one', limit(burst, 50, 5), false],
    ['another unit', limit(tokens, 50, 5), true],
    ['an equal one', limit(policy('also', { window: '1h' }), 50, 5), true],
    ['an internal one', limit(policy('secret', { advertise: false }), 50, 5), true]
  ]
  for (const [why, beside, capped] of cases) {
    const hour = told({}, decision('allowed', ending, beside)).find(text => text.startsWith('hourly'))
    t.equal(hour, capped ? 'hourly;1;4' : 'hourly;100;1', why)
  }
  t.strictSame(
    told({ select: 'closest' }, decision('allowed', { ...ending, remaining: 40 }, limit(burst, 50, 5))),
    ['hourly;1;4'],
    'one that is not selected is not told'
  )
})

t.test('what counts at once has no window, and is no cap', async t => {
  const gpus = policy('gpus', { window: '1h', algorithm: 'fixed-window', unit: 'gpu' })
  const slots = compilePolicy('slots', { quota: 9, algorithm: 'concurrency', unit: 'gpu' }, [])
  t.strictSame(told({}, decision('allowed', limit(gpus, 100, 1), limit(slots, 9, 0))), [
    'gpus;1;4',
    'slots;9;0'
  ])
})

t.test('a cap of ones own is for its units, and for them alone', async t => {
  const limits = [limit(hourly, 50, 10), limit(tokens, 99, 9)]
  t.strictSame(told({ cap: { requests: 2 } }, decision('allowed', ...limits)), [
    'hourly;20;10',
    'tokens;99;9'
  ])
  t.strictSame(told({ cap: { tokens: 2 } }, decision('allowed', ...limits)), ['hourly;50;10', 'tokens;99;50'])
  t.strictSame(told({ cap: { toString: 2 } }, decision('allowed', ...limits)), [
    'hourly;50;10',
    'tokens;99;9'
  ])
  t.strictSame(
    told({ cap: { requests: 2 } }, decision('allowed', limit(hourly, 50, 10), limit(burst, 60, 5))),
    ['hourly;20;10', 'burst;60;30'],
    'of a fixed window the units, of another one the time; a shorter one beside changes nothing'
  )
  t.strictSame(told({ cap: false }, decision('allowed', ...limits)), ['hourly;50;10', 'tokens;99;9'])
})

t.test('a cap changes no wait, and nothing without a window', async t => {
  const cap = { requests: 0.001, 'concurrent-requests': 0.001 }
  t.strictSame(told({ cap }, decision('allowed', limit(hourly, 0, 10))), ['hourly;0;10'])
  t.strictSame(told({ cap }, decision('refused', limit(hourly, 50, 10, refused))), ['hourly;50;10'])
  const slots = compilePolicy('slots', { quota: 9, algorithm: 'concurrency' }, [])
  t.strictSame(told({ cap }, decision('allowed', limit(slots, 5, 0))), ['slots;5;0'])
})

t.test('jitter lengthens waits alone, each by its own', async t => {
  const jitter: Telling['jitter'] = ({ name }) => (name === 'burst' ? 1500 : 4000)
  const served = decision('allowed', limit(burst, 0, 9), limit(tokens, 1, 3), limit(daily, 0, 0))
  t.strictSame(told({ jitter }, served), ['daily-tokens;0;0', 'burst;0;11', 'tokens;1;3'])
  const both = decision('refused', limit(burst, 0, 9, refused), limit(tokens, 1, 3, refused))
  t.strictSame(told({ jitter }, both), ['burst;0;11', 'tokens;1;7'])
  t.strictSame(
    announced({ select: 'all', cap: false, jitter }, { whose: () => undefined }, served).map(
      ({ jitter }) => jitter
    ),
    [4000, 1500, 0]
  )
})

t.test('what a client is told is capped; the limit itself is not', async t => {
  const ending = limit(hourly, 100, 1)
  const [shown] = announced(
    { select: 'all', cap: 'long windows', jitter: () => 0 },
    { whose: () => undefined },
    decision('allowed', ending)
  )
  t.strictSame(shown, { limit: ending, available: 1, window: 4, jitter: 0 })
  t.equal(ending.remaining, 100)
})
