import t from 'tap'
import { readSettings, refuse } from '../../src/audit/options.js'
import type { AuditOptions, Settings } from '../../src/audit/options.js'

const read = (options: unknown = {}): Settings => readSettings(refuse, options as AuditOptions)
const names = (options: AuditOptions): readonly string[] => read(options).attacks.map(({ name }) => name)

t.test('without options all is asked for but the ways around', async t => {
  t.match(read(), {
    stated: { quota: undefined, window: undefined, policy: undefined },
    cost: 1,
    attacks: { length: 11 },
    method: 'GET',
    headers: { 'user-agent': 'fastify-quota-audit', accept: '*/*' },
    path: '/',
    connections: 256,
    maxRequests: 50_000,
    maxTime: 3_600_000
  })
  const { onPlan, onProgress } = read()
  t.equal(onPlan({} as never) ?? onProgress({} as never), undefined)
})

t.test('options are read', async t => {
  const signal = new AbortController().signal
  const clock = { now: 0 }
  const onPlan = (): void => undefined
  t.match(
    read({
      quota: 10,
      window: '500ms',
      policy: 'p',
      cost: 2,
      path: '/items?a=b',
      method: 'post',
      headers: { 'X-Key': 'ä b' },
      body: '{"a":1}',
      connections: 5,
      maxRequests: 100,
      maxTime: 60,
      ownHost: 'example.com',
      clock,
      signal,
      onPlan
    }),
    {
      stated: { quota: 10, window: 500, policy: 'p' },
      cost: 2,
      path: '/items?a=b',
      method: 'POST',
      headers: { 'x-key': 'ä b', 'content-type': 'application/json' },
      body: '{"a":1}',
      connections: 5,
      maxRequests: 100,
      maxTime: 60_000,
      ownHost: 'example.com',
      clock,
      signal,
      onPlan
    }
  )
  t.equal(read({ clock }).maxTime, Infinity, 'a clock that is moved takes no time')
  t.notOk('content-type' in read({ body: 'a=1' }).headers)
  t.match(read({ body: '1', headers: { 'content-type': 'text/plain' } }).headers, {
    'content-type': 'text/plain'
  })
})

t.test(
  'attacks are chosen by name or by what they begin with, and run in the order of the table',
  async t => {
    t.strictSame(names({ attacks: ['parallel', 'drained'] }), ['drained', 'parallel'])
    t.strictSame(names({ attacks: ['shifted'] }), ['shifted-50', 'shifted-25', 'shifted-75'])
    t.strictSame(names({ attacks: ['bypass-head'] }), ['bypass-head'])
    t.equal(names({ attacks: ['bypass'] }).length, 6)
    t.equal(names({ attacks: ['drained'], bypass: true }).length, 7)
    t.equal(names({ bypass: true }).length, 17)
  }
)

t.test('a wrong option is refused with its name, its value and what was expected', async t => {
  const wrong: readonly (readonly [object, string | RegExp])[] = [
    [{ quota: 0 }, 'quota must be an integer from 1 to 999999999999999, got 0'],
    [{ window: 1.5 }, /^window must be whole seconds or a duration/],
    [{ policy: 1 }, 'policy must be text, got 1'],
    [{ cost: '2' }, /^cost must be an integer from 1/],
    [{ attacks: [] }, 'attacks must name at least one attack'],
    [{ attacks: ['drain'] }, /^attacks must be "drained", .*got "drain"; did you mean "drained"\?$/],
    [{ bypass: 'yes' }, 'bypass must be true or false, got "yes"'],
    [{ path: 'items' }, 'path must be a path that starts with /, got "items"'],
    [{ path: '/a b' }, /^path must be/],
    [{ method: 'GE T' }, 'method must be a method of HTTP, got "GE T"'],
    [{ method: 'connect' }, /^method must be a method of HTTP/],
    [{ headers: { 'a b': 'x' } }, 'headers must have names of header fields, got "a b"'],
    [{ headers: { a: 'secret\nx' } }, 'headers must have text of one line for "a"'],
    [{ headers: { a: 1 } }, 'headers must have text of one line for "a"'],
    [{ headers: ['a: b'] }, /^headers must be an object/],
    [{ body: {} }, 'body must be text, got {}'],
    [{ connections: -1 }, /^connections must be an integer/],
    [{ maxRequests: 1.5 }, /^maxRequests must be an integer/],
    [{ maxTime: '1 hour' }, /^maxTime must be whole seconds/],
    [{ ownHost: true }, 'ownHost must be text, got true'],
    [{ clock: () => 0 }, 'clock must be an object whose now is a number of milliseconds, got a function'],
    [{ onPlan: 1 }, 'onPlan must be a function, got 1'],
    [
      { headres: {} },
      'unknown option "headres" with the value an object with no keys; did you mean "headers"?'
    ]
  ]
  for (const [options, message] of wrong) {
    const expected =
      typeof message === 'string' ? `audit: ${message}` : new RegExp(message.source.replace('^', '^audit: '))
    t.throws(() => read(options), { code: 'QUOTA_OPTION', message: expected }, JSON.stringify(options))
  }
  t.throws(() => read(null), { message: 'audit: the options must be an object, got null' })
})
