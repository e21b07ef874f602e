import t from 'tap'
import { fieldsReport } from '../../src/audit/truth.js'
import type { CheckName, FieldCheck } from '../../src/audit/result.js'
import type { Exchange } from '../../src/audit/exchange.js'
import { WAYS } from '../../src/audit/ways.js'
import { exchanged, fields } from './kit.js'

function check(name: CheckName, exchanges: readonly Exchange[], cost = 1): FieldCheck {
  const { checks } = fieldsReport({ exchanges, cost, window: 2000 })
  return checks.find(check => check.name === name)!
}

const admitted = (at: number, r: number, took = 1): Exchange => exchanged({ at, took, fields: fields(r, 2) })
const refused = (at: number, more: Readonly<Record<string, string>> = {}): Exchange =>
  exchanged({ at, status: 429, fields: { ...fields(0, 2), 'retry-after': '2', ...more } })

t.test('what is left is admitted to the next request, and no more is asked of it', async t => {
  t.match(check('units-left', [admitted(0, 1), admitted(10, 0), refused(20)]), { answer: 'true', seen: 1 })
  t.match(check('units-left', [admitted(0, 1), refused(10)]), {
    answer: 'false',
    seen: 1,
    wrong: 1,
    detail: '1 were left, 1 at least when the next request came, and it was refused'
  })
})

t.test('what others may have spent meanwhile is not held against it', async t => {
  // The second was answered last, and may have been counted after the first.
  const overlapping = [admitted(0, 1), exchanged({ at: 0, took: 50 }), refused(20)]
  t.match(check('units-left', overlapping), { answer: 'unseen' })
  const failed = [admitted(0, 1), exchanged({ at: 5, took: 10, status: undefined }), refused(20)]
  t.match(check('units-left', failed), { answer: 'unseen' })
  // One that comes while the refused one is under way may be counted before it.
  const meanwhile = [admitted(0, 1), refused(20, {}), exchanged({ at: 20.5 })]
  t.match(check('units-left', meanwhile), { answer: 'true', seen: 1 }, 'the third alone is judged')
})

t.test('what was left counts for as long as t says, or a window', async t => {
  t.match(check('units-left', [admitted(0, 1), refused(2500)]), { answer: 'unseen' })
  const silent = (at: number): Exchange => exchanged({ at, fields: { ratelimit: '"p";r=1' } })
  t.match(check('units-left', [silent(0), refused(1900)]), { answer: 'false' })
  t.match(check('units-left', [silent(0), refused(2100)]), { answer: 'unseen' })
})

t.test('fewer units than a request costs are no promise, nor are units of another kind', async t => {
  t.match(check('units-left', [admitted(0, 3), refused(10)], 5), { answer: 'unseen' })
  t.match(check('units-left', [admitted(0, 5), refused(10)], 5), { answer: 'false' })
  const bytes = exchanged({
    at: 10,
    status: 429,
    fields: { 'ratelimit-policy': '"b";q=9;qu="content-bytes";w=2', ratelimit: '"b";r=0;t=2' }
  })
  t.match(check('units-left', [admitted(0, 3), bytes]), { answer: 'unseen' })
})

t.test('ways around are not what the fields speak of', async t => {
  const around = exchanged({ at: 10, status: 429, way: WAYS[0]! })
  t.match(check('units-left', [admitted(0, 3), around]), { answer: 'unseen' })
})

t.test('nothing left, and yet admitted long before t had passed, is careful', async t => {
  const early = exchanged({ at: 500 })
  t.match(check('units-left', [admitted(0, 0), early]), {
    answer: 'careful',
    detail: /^nothing was left 1 times/
  })
  t.match(check('units-left', [admitted(0, 0), exchanged({ at: 1500 })]), { answer: 'unseen' })
})

t.test('who waits in silence is admitted, and who kept asking cannot tell', async t => {
  t.match(check('retry-after', [refused(0), admitted(2001, 9)]), { answer: 'true', seen: 1 })
  t.match(check('retry-after', [refused(0), refused(2001)]), {
    answer: 'false',
    detail: 'told to wait 2 s, it was refused again after 2.000 s'
  })
  t.match(check('retry-after', [refused(0), refused(1000), refused(2500)]), { answer: 'unseen' })
  t.match(check('retry-after', [refused(0), admitted(1000, 9), refused(2500)]), { answer: 'unseen' })
  const pending = exchanged({ at: 1, took: 3000 })
  t.match(check('retry-after', [refused(0), pending, refused(2001)]), { answer: 'unseen' })
  t.match(check('retry-after', [refused(0), exchanged({ at: 2001, status: 500 })]), { answer: 'unseen' })
  const overtaken = [refused(0), refused(2001), exchanged({ at: 2001.5 })]
  t.match(
    check('retry-after', overtaken),
    { answer: 'unseen' },
    'one that was sent later may have been counted before'
  )
  t.match(check('retry-after', [refused(0), refused(2001), refused(2001.5)]), { answer: 'false' })
})

t.test('a refusal without a wait is careful', async t => {
  const silent = exchanged({ at: 0, status: 429 })
  t.match(check('retry-after', [silent, admitted(2001, 9)]), {
    answer: 'careful',
    seen: 0,
    detail: '1 of 1 refusals do not say how long to wait'
  })
  t.match(check('retry-after', [admitted(0, 9)]), { answer: 'unseen' })
})

t.test('Retry-After is held against t of the same answer', async t => {
  t.match(check('retry-after-covers-t', [refused(0)]), { answer: 'true', seen: 1 })
  t.match(check('retry-after-covers-t', [refused(0, { 'retry-after': '1' })]), {
    answer: 'false',
    detail: 'Retry-After: 1, and t=2'
  })
  t.match(check('retry-after-covers-t', [refused(0, { ratelimit: '"p";r=0' })]), { answer: 'unseen' })
})

t.test('the policy field is the same on every answer that has it', async t => {
  t.match(check('policy-stable', [admitted(0, 9), exchanged({ at: 1 }), refused(2)]), {
    answer: 'true',
    seen: 2
  })
  t.match(check('policy-stable', [admitted(0, 9), refused(2, { 'ratelimit-policy': '"p";q=9;w=2' })]), {
    answer: 'false',
    detail: '"p";q=10;w=2, and then "p";q=9;w=2'
  })
})

t.test('a problem document names the policies that the fields announce', async t => {
  const problem = (body: string, type = 'application/problem+json; charset=utf-8'): readonly Exchange[] => [
    exchanged({ at: 0, status: 429, fields: { ...fields(0, 2), 'content-type': type }, body })
  ]
  t.match(check('body-names-policy', problem('{"violated-policies":["p"]}')), { answer: 'true' })
  t.match(check('body-names-policy', problem('{"violated-policies":["q"]}')), {
    answer: 'false',
    detail: 'it names "q", and the fields "p"'
  })
  for (const body of ['{"violated-policies":"p"}', '{}', '{', 'null']) {
    t.match(check('body-names-policy', problem(body)), { answer: 'careful' }, body)
  }
  t.match(check('body-names-policy', problem('{"violated-policies":["p"]}', 'text/html')), {
    answer: 'careful'
  })
  const unannounced = exchanged({
    at: 0,
    status: 429,
    fields: { 'content-type': 'application/problem+json' },
    body: '{"violated-policies":["q"]}'
  })
  t.match(check('body-names-policy', [unannounced]), { answer: 'true' })
  t.match(check('body-names-policy', [refused(0)]), { answer: 'unseen' }, 'as of HEAD')
})

t.test('a refusal says that it must not be stored', async t => {
  const control = (value: string): FieldCheck =>
    check('not-cacheable', [refused(0, { 'cache-control': value })])
  t.match(control('no-store'), { answer: 'true' })
  t.match(control('no-store, max-age=60'), { answer: 'true' })
  t.match(control('max-age=0, no-cache'), { answer: 'careful' })
  for (const value of ['public', 'max-age=60', 'private, MAX-AGE="060"', 's-maxage=1']) {
    t.match(control(value), { answer: 'false', detail: `Cache-Control: ${value.toLowerCase()}` }, value)
  }
  t.match(check('not-cacheable', [refused(0)]), { answer: 'careful' })
})

t.test('fields, partition keys and refusals are searched for identifiers', async t => {
  const email = 'ann@example.com'
  for (const [where, exchange] of [
    [
      'pk',
      exchanged({ at: 0, fields: { ratelimit: `"p";r=1;pk=:${Buffer.from(email).toString('base64')}:` } })
    ],
    [
      'pk',
      exchanged({
        at: 0,
        fields: { 'ratelimit-policy': `"p";q=1;pk=:${Buffer.from(email).toString('base64')}:` }
      })
    ],
    ['x-ratelimit-key', exchanged({ at: 0, fields: { 'x-ratelimit-key': email } })],
    ['the body', exchanged({ at: 0, status: 429, body: `${email} is over its quota` })]
  ] as const) {
    t.match(check('no-identifiers', [admitted(0, 9), exchange]), {
      answer: 'false',
      detail: `${where} shows an e-mail address: ${email}`
    })
  }
  const own = exchanged({ at: 0, fields: { 'x-account': email }, body: email })
  t.match(
    check('no-identifiers', [admitted(0, 9), own]),
    { answer: 'true' },
    'what is served is the business of the API'
  )
  t.match(check('no-identifiers', [exchanged({ at: 0 })]), { answer: 'unseen' })
})

t.test('each field about limits is shown with what it said', async t => {
  const { seen } = fieldsReport({
    exchanges: [admitted(0, 9), admitted(1, 8), refused(2, { 'x-rate-limit-reset': '3', server: 'x' })],
    cost: 1,
    window: 2000
  })
  t.strictSame(seen, [
    { name: 'ratelimit', admitted: '"p";r=9;t=2', refused: '"p";r=0;t=2' },
    { name: 'ratelimit-policy', admitted: '"p";q=10;w=2', refused: '"p";q=10;w=2' },
    { name: 'retry-after', admitted: null, refused: '2' },
    { name: 'x-rate-limit-reset', admitted: null, refused: '3' }
  ])
})
