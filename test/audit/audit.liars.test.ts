import Fastify from 'fastify'
import type { FastifyReply } from 'fastify'
import t from 'tap'
import { audit } from '../../src/audit/index.js'
import type { AuditOptions, AuditResult, CheckName, FieldCheck } from '../../src/audit/index.js'
import quota from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { EPOCH } from './kit.js'

type Tamper = (reply: FastifyReply, refused: boolean) => unknown

t.test('an honest limiter is found true in every field', async t => {
  const { fields, promiseKept } = await audited(() => undefined)
  t.ok(promiseKept)
  t.strictSame(new Set(fields.checks.map(({ answer }) => answer)), new Set(['true']))
  t.match(fields.seen, [
    { name: 'ratelimit', admitted: '"p";r=9;t=5', refused: /^"p";r=0;t=\d$/ },
    { name: 'ratelimit-policy', admitted: '"p";q=10;w=5', refused: '"p";q=10;w=5' },
    { name: 'retry-after', admitted: null, refused: /^\d$/ }
  ])
})

t.test('a Retry-After that is too early is found, for who waits is refused again', async t => {
  const result = await audited((reply, refused) => {
    if (refused) reply.header('retry-after', 1)
  })
  t.match(check(result, 'retry-after'), {
    answer: 'false',
    detail: 'told to wait 1 s, it was refused again after 1.000 s'
  })
  t.match(check(result, 'retry-after-covers-t'), { answer: 'false', detail: 'Retry-After: 1, and t=5' })
  t.ok(result.promiseKept, 'the quota itself is kept')
})

t.test('a Retry-After that is half a window early is found without any other field', async t => {
  const result = await audited((reply, refused) => {
    if (refused) reply.header('retry-after', Math.ceil(Number(reply.getHeader('retry-after')) / 2))
    reply.removeHeader('ratelimit').removeHeader('ratelimit-policy')
  }, STATED)
  t.match(check(result, 'retry-after'), { answer: 'false', detail: /^told to wait 3 s/ })
  t.match(check(result, 'units-left'), { answer: 'unseen', seen: 0, detail: 'nothing to judge by' })
  t.match(check(result, 'body-names-policy'), { answer: 'true' })
})

t.test('an r above what is admitted is found, by one unit as well as constant', async t => {
  const oneMore = await audited(reply => {
    const told = String(reply.getHeader('ratelimit'))
    reply.header(
      'ratelimit',
      told.replace(/r=(\d+)/, (_, r) => `r=${Number(r) + 1}`)
    )
  })
  t.match(check(oneMore, 'units-left'), {
    answer: 'false',
    detail: '1 were left, 1 at least when the next request came, and it was refused'
  })
  const constant = await audited(reply => reply.header('ratelimit', '"p";r=10;t=5'))
  t.match(check(constant, 'units-left'), { answer: 'false' })
})

t.test('an r below what is admitted is careful, and said so', async t => {
  const result = await audited(reply => reply.header('ratelimit', '"p";r=0;t=5'))
  t.match(check(result, 'units-left'), {
    answer: 'careful',
    detail: /^nothing was left \d+ times, and more was admitted over a second before t had passed$/
  })
})

t.test('a policy field that changes is found', async t => {
  let answers = 0
  const result = await audited(reply => {
    if (++answers === 20) reply.header('ratelimit-policy', '"p";q=11;w=5')
  })
  t.match(check(result, 'policy-stable'), {
    answer: 'false',
    wrong: 1,
    detail: '"p";q=10;w=5, and then "p";q=11;w=5'
  })
})

t.test('partition keys that show who asked are found, and labels are not', async t => {
  const tenant = await audited(pk('tenant-7'))
  t.match(check(tenant, 'no-identifiers'), { answer: 'true' })
  const shown = {
    'ann@example.com': 'pk shows an e-mail address: ann@example.com',
    '203.0.113.7': 'pk shows an IP address: 203.0.113.7',
    'ip:2001:db8::7': 'pk shows an IP address: 2001:db8::7',
    'sk-live-abcdefghijklmnop1234': 'pk shows an API key or a token: sk-…',
    'mine: s3cret-key': 'pk shows a header of the request: s3c…'
  }
  for (const [text, detail] of Object.entries(shown)) {
    const result = await audited(pk(text), { headers: { 'x-api-key': 's3cret-key' } })
    t.match(check(result, 'no-identifiers'), { answer: 'false', detail }, text)
  }
})

t.test('a refusal that a cache may keep is found', async t => {
  const cacheable = await audited((reply, refused) => {
    if (refused) reply.header('cache-control', 'public, max-age=60')
  })
  t.match(check(cacheable, 'not-cacheable'), {
    answer: 'false',
    detail: 'Cache-Control: public, max-age=60'
  })
  const silent = await audited(reply => reply.removeHeader('cache-control'))
  t.match(check(silent, 'not-cacheable'), {
    answer: 'careful',
    detail: /^(\d+) of \1 refusals have no Cache-Control: no-store$/
  })
})

t.test('refusals that tell little are careful: no wait, no policy', async t => {
  const silent = await audited(
    (reply, refused) => {
      if (refused) reply.removeHeader('retry-after').type('text/plain')
    },
    {},
    { problem: false }
  )
  t.match(check(silent, 'retry-after'), {
    answer: 'careful',
    detail: /refusals do not say how long to wait$/
  })
  t.match(check(silent, 'body-names-policy'), { answer: 'careful', detail: /have no violated-policies/ })
})

t.test('a body that names another policy is found', async t => {
  const problem = (): object => ({ 'violated-policies': ['other'] })
  const result = await audited(() => undefined, {}, { problem })
  t.match(check(result, 'body-names-policy'), {
    answer: 'false',
    detail: 'it names "other", and the fields "p"'
  })
})

const STATED = { quota: 10, window: '5s' }

/** An audit of an app that would be honest if nobody tampered with its answers. */
async function audited(
  tamper: Tamper,
  wishes: AuditOptions = {},
  options: Partial<QuotaOptions> = {}
): Promise<AuditResult> {
  const clock = { now: EPOCH }
  const app = Fastify()
  await app.register(quota, { ...options, clock: () => clock.now, policies: { p: '10/5s' } })
  app.addHook('onSend', async (_request, reply) => {
    // What it gives is a reply, which must not be waited for.
    tamper(reply, reply.statusCode === 429)
  })
  app.get('/', () => 'served')
  return audit({ app }, { clock, attacks: ['drained', 'obedient', 'slow-drip'], ...wishes })
}

function pk(text: string): Tamper {
  const bytes = Buffer.from(text).toString('base64')
  return reply => reply.header('ratelimit', `${String(reply.getHeader('ratelimit'))};pk=:${bytes}:`)
}

function check({ fields }: AuditResult, name: CheckName): FieldCheck {
  return fields.checks.find(check => check.name === name)!
}
