import t from 'tap'
import { parseRateLimit, parseRateLimitPolicy } from '../../../src/client/index.js'
import { read } from '../../../src/client/reading.js'
import type { Reading } from '../../../src/client/reading.js'
import { ANSWERS, Script } from '../../../src/client/testing/script.js'
import type { Answer, AnswerName } from '../../../src/client/testing/script.js'
import { violatedPolicies } from '../../../src/client/violations.js'

function first(answer: AnswerName | Answer): Reading & { readonly violated: readonly string[] | undefined } {
  const { status, fields, body } = new Script([answer]).next(0)
  return { ...read({ status, field: name => fields[name] }, 0), violated: violatedPolicies(body) }
}

t.test('each answer says what its name says', async t => {
  t.match(first('served'), { status: 200, refused: false, told: [] })
  t.match(first('requests'), {
    status: 429,
    retryAfter: 1000,
    violated: ['requests'],
    told: [
      { policy: 'requests', unit: 'requests', quota: 10, window: 10_000, available: 0, effectiveWindow: 1000 }
    ]
  })
  t.match(first({ answer: 'tokens', available: 300, retryAfter: 7 }), {
    status: 429,
    retryAfter: 7000,
    violated: ['tokens'],
    told: [
      { policy: 'tokens', unit: 'tokens', quota: 1000, window: 60_000, available: 300, effectiveWindow: 7000 }
    ]
  })
  t.match(first('concurrency'), {
    status: 429,
    retryAfter: undefined,
    violated: ['concurrency'],
    told: [
      {
        policy: 'concurrency',
        unit: 'concurrent-requests',
        quota: 1,
        available: 0,
        effectiveWindow: undefined
      }
    ]
  })
  t.match(first({ answer: 'unavailable', retryAfter: 5 }), { status: 503, retryAfter: 5000, told: [] })
  t.match(first('no-header'), { status: 429, retryAfter: undefined, told: [], violated: undefined })
  t.match(first('early'), { status: 429, retryAfter: 1000, violated: ['requests'] })
})

t.test('wrong fields are wrong, each of them', async t => {
  t.match(first('wrong-header'), { status: 429, retryAfter: undefined, told: [] })
  const { fields } = new Script(['wrong-header']).next(0)
  t.equal(parseRateLimit(fields['ratelimit']), undefined)
  t.equal(parseRateLimitPolicy(fields['ratelimit-policy']), undefined)
  t.ok(
    fields['ratelimit'] !== undefined &&
      fields['ratelimit-policy'] !== undefined &&
      fields['retry-after'] !== undefined
  )
})

t.test('answers follow each other as often as they say, and then all is served', async t => {
  const script = new Script(['requests', { answer: 'no-header', times: 2 }, 'served', 'unavailable'])
  t.strictSame(
    Array.from({ length: 7 }, () => script.next(0).answer),
    ['requests', 'no-header', 'no-header', 'served', 'unavailable', 'served', 'served']
  )
})

t.test('an early wait is over before the refusal is', async t => {
  const script = new Script([{ answer: 'early', retryAfter: 1, lasts: 3 }, 'early', 'requests'])
  t.equal(script.next(500).wait, 1000)
  t.equal(script.next(3499).answer, 'early')
  t.equal(script.next(3500).answer, 'early', 'the second one begins')
  t.equal(script.next(6499).answer, 'early')
  t.equal(script.next(6500).answer, 'requests')
})

t.test('fields can be added and replaced', async t => {
  const { fields } = new Script([{ answer: 'requests', fields: { 'retry-after': '9', 'x-a': '1' } }]).next(0)
  t.match(fields, { 'retry-after': '9', 'x-a': '1', ratelimit: '"requests";r=0;t=1' })
})

t.test('a wrong script is refused with a sentence that helps', async t => {
  const wrong: readonly (readonly [script: unknown, message: string])[] = [
    ['served', 'the script must be a list of answers'],
    [
      ['reqests'],
      `answer 1: answer must be ${ANSWERS.map(name => `"${name}"`)
        .join(', ')
        .replace(/, ("[^"]+")$/, ' or $1')}, got "reqests"; did you mean "requests"?`
    ],
    [
      ['served', { answer: 'requests', retryAfter: 0 }],
      'answer 2: retryAfter must be an integer from 1 to 1000000, got 0'
    ],
    [[{ answer: 'requests', times: 0 }], 'answer 1: times must be an integer from 1 to 1000000, got 0'],
    [
      [{ answer: 'requests', available: -1 }],
      'answer 1: available must be an integer from 0 to 1000000, got -1'
    ],
    [[{ answer: 'early', lasts: '3s' }], 'answer 1: lasts must be an integer from 1 to 1000000, got "3s"'],
    [[{ answer: 'requests', fields: 'x' }], 'answer 1: fields must be an object, got "x"'],
    [
      [{ answer: 'requests', after: 3 }],
      'answer 1: unknown option "after" with the value 3; expected answer, times, retryAfter, available, lasts, fields'
    ],
    [[5], 'answer 1 must be an object, got 5']
  ]
  for (const [script, message] of wrong) {
    t.throws(() => new Script(script as AnswerName[]), {
      code: 'QUOTA_OPTION',
      message: `mockServer: ${message}`
    })
  }
})
