import t from 'tap'
import { addressing } from '../src/address.js'
import { compilePolicy } from '../src/policy.js'
import { SubjectParts, partitionOf, requestOf } from '../src/subject.js'

const IDENTITIES = ['user', 'tenant']
const parts = (subject: Readonly<Record<string, string>>): SubjectParts =>
  new SubjectParts(subject, IDENTITIES, addressing(64))
const policy = (partition: string): ReturnType<typeof compilePolicy> =>
  compilePolicy('daily', { quota: 9, window: '1d', partition }, IDENTITIES)

t.test('a subject written by hand counts as a request with the same identities', async t => {
  t.equal(partitionOf(policy('user'), parts({ user: '42' })), 'user:42')
  t.equal(partitionOf(policy('ip'), parts({ ip: '::ffff:203.0.113.9' })), 'ip:203.0.113.9')
  t.equal(partitionOf(policy('route'), parts({ route: 'HEAD /items' })), 'route:GET /items')
  t.equal(partitionOf(policy('user'), parts({ user: '', ip: '203.0.113.9' })), 'ip:203.0.113.9')
})

t.test('what a subject lacks is told with the policy that needs it, and without its values', async t => {
  t.throws(() => partitionOf(policy('user'), parts({ tenant: 'secret' })), {
    code: 'FST_QUOTA_SUBJECT',
    message: 'policy "daily" counts by user: the subject needs "ip", got tenant'
  })
  t.throws(() => partitionOf(policy('route'), parts({})), {
    code: 'FST_QUOTA_SUBJECT',
    message: 'policy "daily" counts by route: the subject needs "route", got nothing'
  })
  t.throws(() => parts({ usr: '42' }), {
    code: 'FST_QUOTA_SUBJECT',
    message: 'a subject has no identity "usr"; did you mean "user"?'
  })
})

t.test('a fault of a partition that is not about the subject stays what it is', async t => {
  const broken = {
    ...policy('user'),
    rule: { ...policy('user').rule, resolve: () => JSON.parse('{') as string }
  }
  t.throws(() => partitionOf(broken, parts({ user: '42' })), SyntaxError)
})

t.test('a subject is a request or identities, and nothing else', async t => {
  const request = { raw: {} } as never
  t.equal(requestOf(request), request)
  t.equal(requestOf({ user: '42' }), undefined)
  for (const nothing of [undefined, null, 'alice', 7, ['user']]) {
    t.throws(() => requestOf(nothing as never), {
      code: 'FST_QUOTA_SUBJECT',
      message: /a subject is a request/
    })
  }
})
