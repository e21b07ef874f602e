import t from 'tap'
import { readRouteQuota } from '../src/route-quota.js'

const refuse = (message: string): never => {
  throw new RangeError(message)
}
const read = (written: unknown): ReturnType<typeof readRouteQuota> => readRouteQuota(refuse, written)

const DEFAULTS = { none: false, replaces: false, references: [], cost: undefined, hook: undefined }

t.test('a route has the defaults, none, others or more', async t => {
  const cost = (): number => 2
  const place = { name: 'once', quota: 1, window: '1m' }
  const table: readonly (readonly [written: unknown, wish: object])[] = [
    [undefined, DEFAULTS],
    [{}, DEFAULTS],
    [{ policies: undefined, also: undefined, cost: undefined, hook: undefined }, DEFAULTS],
    [Object.create(null), DEFAULTS],
    [false, { ...DEFAULTS, none: true }],
    [['login'], { ...DEFAULTS, replaces: true, references: ['login'] }],
    [{ policies: ['login'] }, { ...DEFAULTS, replaces: true, references: ['login'] }],
    [{ also: ['heavy', 'rpm'] }, { ...DEFAULTS, references: ['heavy', 'rpm'] }],
    [{ cost: 0 }, { ...DEFAULTS, cost: 0 }],
    [{ cost }, { ...DEFAULTS, cost }],
    [{ cost: { daily: 5, toString: cost } }, { ...DEFAULTS, cost: { daily: 5, toString: cost } }],
    [{ hook: 'preHandler' }, { ...DEFAULTS, hook: 'preHandler' }],
    [[place, 'login'], { ...DEFAULTS, replaces: true, references: [place, 'login'] }]
  ]
  for (const [written, wish] of table) {
    const { references, ...rest } = read(written)
    const copies = references.map(reference => (typeof reference === 'string' ? reference : { ...reference }))
    t.strictSame({ ...rest, references: copies }, wish)
  }
})

t.test('what is written wrongly is refused with the option, the value and what was expected', async t => {
  const quota =
    "quota must be false, a list of policy names such as ['daily'], or { policies, also, cost, hook }, got"
  const cost = 'must be an integer from 0 to 999999999999999 or a function of the request, got'
  const nameless = 'a policy written in place needs a name: { name, quota, window }, got'
  const hook = 'hook must be "onRequest", "preParsing", "preValidation" or "preHandler", got'
  const table: readonly (readonly [written: unknown, message: string])[] = [
    [null, `${quota} null`],
    [true, `${quota} true`],
    [10, `${quota} 10`],
    ['login', `${quota} "login"`],
    [() => false, `${quota} a function`],
    [new Set(['login']), 'quota must be a plain object, got an instance of Set'],
    [[], 'quota must name at least one policy, got []; for no quota at all write quota: false'],
    [
      { policies: [] },
      'policies must name at least one policy, got []; for no quota at all write quota: false'
    ],
    [{ also: [] }, 'also must name at least one policy, got []; for no quota at all write quota: false'],
    [{ policies: 'login' }, 'policies must be a list of policy names, got "login"'],
    [{ policies: { login: '5/1m' } }, 'policies must be a list of policy names, got {"login":"5/1m"}'],
    // A list with a hole in it, which loops over lists may skip.
    [
      { also: Array(1) },
      'also takes names of policies and policies { name, quota, window, … }, got undefined'
    ],
    [{ also: null }, 'also must be a list of policy names, got null'],
    [
      { policies: ['a'], also: ['b'] },
      'policies replaces the defaults and also adds to them: expected one of the two, got both'
    ],
    [[5], 'quota takes names of policies and policies { name, quota, window, … }, got 5'],
    [{ also: [null] }, 'also takes names of policies and policies { name, quota, window, … }, got null'],
    [{ also: [['a']] }, 'a policy in also must be an object, got ["a"]'],
    [[{ quota: 1, window: '1m' }], `${nameless} {"quota":1,"window":"1m"}`],
    [[{ name: 5, quota: 1 }], `${nameless} {"name":5,"quota":1}`],
    [['5/1m'], `${nameless} "5/1m"`],
    [
      [Object.create({ name: 'a' })],
      'a policy in quota must be a plain object, got an object that inherits from another one'
    ],
    [
      [{ name: 'login', quota: 1, window: '1m', default: false }],
      `policy "login": default belongs in the plugin's policies, got false`
    ],
    [{ cost: -1 }, `cost ${cost} -1`],
    [{ cost: null }, `cost ${cost} null`],
    [{ cost: [1] }, `cost ${cost} [1]`],
    [{ cost: '5' }, `cost ${cost} "5"`],
    [{ cost: { daily: 1.5 } }, `cost of "daily" ${cost} 1.5`],
    [{ cost: { daily: undefined } }, `cost of "daily" ${cost} undefined`],
    [{ cost: new Map([['daily', 1]]) }, 'cost must be a plain object, got an instance of Map'],
    [{ hook: 'preHandlr' }, `${hook} "preHandlr"; did you mean "preHandler"?`],
    [{ hook: null }, `${hook} null`],
    [{ hook: 'onSend' }, `${hook} "onSend"`]
  ]
  for (const [written, message] of table) t.throws(() => read(written), new RangeError(message))
})

t.test('a policy where a list belongs and a misspelt key get a suggestion', async t => {
  const inPlace = 'policies, such as [{ name, quota, window }]'
  const table: readonly (readonly [key: string, word: string])[] = [
    ['policy', 'policies'],
    ['quota', inPlace],
    ['window', inPlace],
    ['max', inPlace],
    ['limit', inPlace],
    ['timeWindow', inPlace],
    ['polices', 'policies'],
    ['alos', 'also'],
    ['costs', 'cost'],
    ['hooks', 'hook']
  ]
  for (const [key, word] of table) {
    t.throws(
      () => read({ [key]: 1 }),
      new RangeError(
        `unknown option "${key}" with the value 1; did you mean ${word.replace(/^\w+/, '"$&"')}?`
      )
    )
  }
  for (const key of ['refund', 'constructor', 'toString']) {
    t.throws(
      () => read({ [key]: 1 }),
      new RangeError(`unknown option "${key}" with the value 1; expected policies, also, cost, hook`)
    )
  }
  t.throws(
    () => read(JSON.parse('{"__proto__":{"cost":5}}')),
    new RangeError(
      'unknown option "__proto__" with the value an object with "cost"; expected policies, also, cost, hook'
    )
  )
})

t.test('costs by name are own keys only, __proto__ included', async t => {
  const { cost } = read({ cost: JSON.parse('{"__proto__":5}') })
  t.strictSame(Object.keys(cost as object), ['__proto__'])
})
