import { runInNewContext } from 'node:vm'
import t from 'tap'
import {
  alternatives,
  asBoolean,
  asDuration,
  asFunction,
  asInteger,
  asObject,
  asOneOf,
  knownKeys,
  outline,
  refuser,
  show,
  suggestion
} from '../src/options.js'

class PlaceError extends Error {}
const refuse = refuser(PlaceError, 'here')

/** The message `read` is refused with. */
function refusal(read: () => unknown): string {
  try {
    return `not refused: ${String(read())}`
  } catch (error) {
    if (error instanceof PlaceError) return error.message
    throw error
  }
}

t.test('a refusal is an error of the given class that says where', async t => {
  t.throws(() => refuse('quota is required'), new PlaceError('here: quota is required'))
})

t.test('a value is shown on one line, short, with its type visible', async t => {
  const circular: Record<string, unknown> = {}
  circular['self'] = circular
  const table: readonly (readonly [value: unknown, shown: string])[] = [
    [10, '10'],
    ['10', '"10"'],
    [Number.NaN, 'NaN'],
    [Infinity, 'Infinity'],
    [10n, '10n'],
    [null, 'null'],
    [undefined, 'undefined'],
    [true, 'true'],
    ['', '""'],
    ['a\r\nSet-Cookie: x=1', '"a\\r\\nSet-Cookie: x=1"'],
    [Symbol('daily'), 'Symbol(daily)'],
    [() => 1, 'a function'],
    [[1, '2'], '[1,"2"]'],
    [{ quota: 1 }, '{"quota":1}'],
    [Object.assign(Object.create(null), { quota: 1 }), '{"quota":1}'],
    [circular, 'an object'],
    [{ quota: 1n }, 'an object'],
    [new Map(), 'an instance of Map'],
    [new Date(0), 'an instance of Date'],
    [Object.create({ quota: 1 }), 'an object that inherits from another one'],
    [Object.create(Object.create(null)), 'an object'],
    ['x'.repeat(58), `"${'x'.repeat(58)}"`],
    ['x'.repeat(59), `"${'x'.repeat(56)}...`],
    [10n ** 100n, `1${'0'.repeat(56)}...`]
  ]
  for (const [value, shown] of table) t.equal(show(value), shown, shown)
})

t.test('what is in an instance is never shown', async t => {
  class Redis {
    readonly password = 'secret'
  }
  t.equal(show(new Redis()), 'an instance of Redis')
})

t.test('an outline is the keys of an object, five at most, and never what is under them', async t => {
  const table: readonly (readonly [value: unknown, shown: string])[] = [
    [{}, 'an object with no keys'],
    [{ host: 'redis', password: 'secret' }, 'an object with "host", "password"'],
    [Object.assign(Object.create(null), { password: 'secret' }), 'an object with "password"'],
    [runInNewContext('({ password: 1 })'), 'an object with "password"'],
    [{ a: 1, b: 2, c: 3, d: 4, e: 5, f: 6 }, 'an object with "a", "b", "c", "d", "e"'],
    [{ 'a\r\nb': 1 }, 'an object with "a\\r\\nb"'],
    [{ ['x'.repeat(100)]: 1 }, `an object with "${'x'.repeat(56)}...`],
    [new Map([['password', 'secret']]), 'an instance of Map'],
    [Object.create({ password: 'secret' }), 'an object that inherits from another one'],
    [null, 'null'],
    [undefined, 'undefined'],
    [10, '10'],
    ['10', '"10"'],
    [[1, '2'], '[1,"2"]'],
    [() => 1, 'a function']
  ]
  for (const [value, shown] of table) t.equal(outline(value), shown, shown)
})

t.test('an object is taken as a copy that inherits nothing', async t => {
  const written = { quota: 1, ['__proto__']: undefined, constructor: 2 }
  const options = asObject(refuse, 'a policy', written)
  t.strictSame({ ...options }, { quota: 1, ['__proto__']: undefined, constructor: 2 })
  t.equal(Object.getPrototypeOf(options), null)
  t.equal(options['toString'], undefined)
  t.equal(Object.getPrototypeOf(asObject(refuse, 'a policy', JSON.parse('{"__proto__":{"quota":1}}'))), null)
})

t.test('an object of another realm or without a prototype is an object', async t => {
  t.strictSame({ ...asObject(refuse, 'options', runInNewContext('({ quota: 1 })')) }, { quota: 1 })
  t.strictSame(
    { ...asObject(refuse, 'options', Object.assign(Object.create(null), { quota: 1 })) },
    { quota: 1 }
  )
})

t.test('whatever is no plain object is refused', async t => {
  const table: readonly (readonly [value: unknown, message: string])[] = [
    [null, 'here: options must be an object, got null'],
    [undefined, 'here: options must be an object, got undefined'],
    ['100/1m', 'here: options must be an object, got "100/1m"'],
    [[], 'here: options must be an object, got []'],
    [() => ({}), 'here: options must be an object, got a function'],
    [new Map([['a', 1]]), 'here: options must be a plain object, got an instance of Map'],
    [
      Object.create({ quota: 1 }),
      'here: options must be a plain object, got an object that inherits from another one'
    ],
    [Object.create(Object.create(null)), 'here: options must be a plain object, got an object'],
    [
      { __proto__: { quota: 1 } },
      'here: options must be a plain object, got an object that inherits from another one'
    ]
  ]
  for (const [value, message] of table) {
    t.equal(
      refusal(() => asObject(refuse, 'options', value)),
      message
    )
  }
})

t.test('alternatives are words in a sentence', async t => {
  t.equal(alternatives(['a']), '"a"')
  t.equal(alternatives(['a', 429]), '"a" or 429')
  t.equal(alternatives(['a', 'b', false]), '"a", "b" or false')
})

t.test('an integer is taken from its range and nothing else', async t => {
  t.equal(asInteger(refuse, 'quota', 0, 0, 10), 0)
  t.equal(asInteger(refuse, 'quota', 10, 0, 10), 10)
  t.ok(Object.is(asInteger(refuse, 'quota', -0, 0, 10), 0), 'minus zero is zero')
  const wrong = ['10', -1, 11, 1.5, Number.NaN, Infinity, null, undefined, true, 1n, [1], {}]
  for (const value of wrong) {
    t.equal(
      refusal(() => asInteger(refuse, 'quota', value, 0, 10)),
      `here: quota must be an integer from 0 to 10, got ${show(value)}`
    )
  }
  t.equal(
    refusal(() => asInteger(refuse, 'precision', 'all', 1, 10, " or 'exact'")),
    `here: precision must be an integer from 1 to 10 or 'exact', got "all"`
  )
})

t.test('a boolean is true or false, not what looks like it', async t => {
  t.equal(asBoolean(refuse, 'align', true), true)
  t.equal(asBoolean(refuse, 'align', false), false)
  for (const value of [1, 0, 'true', null, undefined, {}]) {
    t.equal(
      refusal(() => asBoolean(refuse, 'align', value)),
      `here: align must be true or false, got ${show(value)}`
    )
  }
})

t.test('a function is returned as it is', async t => {
  const exempt = (): boolean => true
  t.equal(asFunction(refuse, 'exempt', exempt), exempt)
  t.equal(
    refusal(() => asFunction(refuse, 'exempt', 'all' as never)),
    'here: exempt must be a function, got "all"'
  )
})

t.test('one of some values is taken, and a near miss gets a suggestion', async t => {
  t.equal(asOneOf(refuse, 'hook', 'onRequest', ['onRequest', 'preHandler']), 'onRequest')
  t.equal(asOneOf(refuse, 'fields', false, ['draft-11', false]), false)
  const table: readonly (readonly [
    value: unknown,
    values: readonly (string | number | boolean)[],
    message: string
  ])[] = [
    ['all', ['a', 'b', 'c'], 'here: it must be "a", "b" or "c", got "all"'],
    ['a', ['x-ratelimit'], 'here: it must be "x-ratelimit", got "a"'],
    [418, [429, 503], 'here: it must be 429 or 503, got 418'],
    ['429', [429, 503], 'here: it must be 429 or 503, got "429"'],
    [null, ['draft-11', false], 'here: it must be "draft-11" or false, got null'],
    [
      'ONREQUEST',
      ['onRequest', 'preHandler'],
      'here: it must be "onRequest" or "preHandler", got "ONREQUEST"; did you mean "onRequest"?'
    ]
  ]
  for (const [value, values, message] of table) {
    t.equal(
      refusal(() => asOneOf(refuse, 'it', value, values)),
      message
    )
  }
})

t.test('a duration is whole seconds or text, in milliseconds inside', async t => {
  const table: readonly (readonly [value: unknown, milliseconds: number])[] = [
    [1, 1000],
    [60, 60_000],
    ['1ms', 1],
    ['500ms', 500],
    ['10s', 10_000],
    ['1m', 60_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['36525d', 3_155_760_000_000],
    [3_155_760_000, 3_155_760_000_000],
    ['999999999s', 999_999_999_000]
  ]
  for (const [value, milliseconds] of table) {
    t.equal(asDuration(refuse, 'window', value), milliseconds, show(value))
  }
  const wrong = [
    'banana',
    0,
    -5,
    0.5,
    '0s',
    '-1s',
    '1.5s',
    '1 fortnight',
    '1 minute',
    '1h30m',
    '60',
    '10S',
    '10s\n',
    ' 10s',
    '',
    '36526d',
    3_155_760_001,
    '1000000000s',
    1e300,
    Number.NaN,
    Infinity,
    null,
    undefined,
    {},
    ['1m'],
    1n,
    new Date(0)
  ]
  for (const value of wrong) {
    t.equal(
      refusal(() => asDuration(refuse, 'window', value)),
      "here: window must be whole seconds or a duration like '500ms', '10s', '1m', '2h' or '1d', " +
        `more than 0 and at most 36525d, got ${show(value)}`
    )
  }
})

t.test(
  'an unknown key is refused with the nearest one, the habit it comes from or all there are',
  async t => {
    const known = ['quota', 'window', 'hook']
    const habits = { max: 'quota', windowMs: 'window, in seconds' }
    const table: readonly (readonly [options: Record<string, unknown>, message: string])[] = [
      [{ qouta: 1 }, 'here: unknown option "qouta" with the value 1; did you mean "quota"?'],
      [{ Quota: 1 }, 'here: unknown option "Quota" with the value 1; did you mean "quota"?'],
      [
        { quota: 1, widnow: '1m' },
        'here: unknown option "widnow" with the value "1m"; did you mean "window"?'
      ],
      [{ max: 10 }, 'here: unknown option "max" with the value 10; did you mean "quota"?'],
      [
        { windowMs: 60_000 },
        'here: unknown option "windowMs" with the value 60000; did you mean "window", in seconds?'
      ],
      [{ banana: true }, 'here: unknown option "banana" with the value true; expected quota, window, hook'],
      [
        { banana: undefined },
        'here: unknown option "banana" with the value undefined; expected quota, window, hook'
      ],
      [
        { constructor: 1 },
        'here: unknown option "constructor" with the value 1; expected quota, window, hook'
      ],
      [{ toString: 1 }, 'here: unknown option "toString" with the value 1; expected quota, window, hook'],
      [
        JSON.parse('{"__proto__":{"quota":1}}'),
        'here: unknown option "__proto__" with the value an object with "quota"; expected quota, window, hook'
      ],
      [
        { client: { password: 'secret' } },
        'here: unknown option "client" with the value an object with "password"; expected quota, window, hook'
      ],
      [{ 'a\r\nb': 1 }, 'here: unknown option "a\\r\\nb" with the value 1; expected quota, window, hook'],
      [
        { ['x'.repeat(10_000)]: 1 },
        `here: unknown option "${'x'.repeat(56)}... with the value 1; expected quota, window, hook`
      ]
    ]
    for (const [options, message] of table) {
      t.equal(
        refusal(() => knownKeys(refuse, options, known, habits)),
        message
      )
    }
    t.doesNotThrow(() => knownKeys(refuse, { quota: 1, hook: undefined }, known))
  }
)

t.test('a suggestion is at most two edits away and shares something with what was written', async t => {
  const table: readonly (readonly [value: unknown, words: readonly string[], hint: string])[] = [
    ['dayly', ['daily', 'burst'], '; did you mean "daily"?'],
    ['DAILY', ['daily'], '; did you mean "daily"?'],
    ['dailyyy', ['daily'], '; did you mean "daily"?'],
    ['dailyyyy', ['daily'], ''],
    ['burt', ['hurts', 'burst'], '; did you mean "burst"?'],
    ['hook', ['Hook', 'book'], '; did you mean "Hook"?'],
    ['x', ['a'], ''],
    ['xy', ['ab'], ''],
    ['ac', ['ab'], '; did you mean "ab"?'],
    ['daily', [], ''],
    [5, ['5'], '']
  ]
  for (const [value, words, hint] of table) t.equal(suggestion(value, words), hint, show(value))
})
