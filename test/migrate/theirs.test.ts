import t from 'tap'
import { readPlugin } from '../../src/migrate/theirs.js'

const limit = (options: unknown) => readPlugin(options).limit

t.test('what is left out, or undefined, has the default it had', async t => {
  for (const options of [{}, { max: undefined, timeWindow: undefined, allowList: null }]) {
    t.match(limit(options), {
      max: 1000,
      window: 60,
      hook: 'onRequest',
      allowList: [],
      ipv6Subnet: 64,
      skipOnError: false,
      hidden: [],
      hiddenOnRefusal: []
    })
  }
})

t.test('a window is whole seconds where it can be', async t => {
  t.equal(limit({ timeWindow: 1500 }).window, '1500ms')
  t.equal(limit({ timeWindow: 2000.9 }).window, 2)
  t.equal(limit({ timeWindow: '30 days' }).window, 2_592_000)
})

const WRONG = {
  'limit is none of its options': [
    { limit: 5 },
    'unknown option "limit" with the value 5; expected max, timeWindow, hook, allowList, keyGenerator, ipv6Subnet'
  ],
  'maxx is near max': [{ maxx: 5 }, 'unknown option "maxx" with the value 5; did you mean "max"?'],
  'max is text': [{ max: '1' }, 'max must be a number of 0 or more, or a function of the request, got "1"'],
  'max is negative': [{ max: -1 }, 'max must be a number of 0 or more, or a function of the request, got -1'],
  'max has no end': [
    { max: Infinity },
    'max must be a number of 0 or more, or a function of the request, got Infinity'
  ],
  'timeWindow is no duration': [
    { timeWindow: 'soon' },
    `timeWindow must be milliseconds above 0 or a text such as '1 minute', got "soon"`
  ],
  'timeWindow is 0': [
    { timeWindow: 0 },
    "timeWindow must be milliseconds above 0 or a text such as '1 minute', got 0"
  ],
  'timeWindow is true': [
    { timeWindow: true },
    "timeWindow must be milliseconds above 0 or a text such as '1 minute', got true"
  ],
  'timeWindow is a function': [
    { timeWindow: () => 1 },
    'timeWindow cannot be a function, for a policy has one window: write a policy for each window'
  ],
  'hook is none of a request before its handler': [
    { hook: 'onSend' },
    'hook must be "onRequest", "preParsing", "preValidation" or "preHandler", got "onSend"'
  ],
  'allowList is text': [
    { allowList: '127.0.0.1' },
    'allowList must be a list of keys or a function of the request, got "127.0.0.1"'
  ],
  'allowList has numbers': [
    { allowList: [1] },
    'allowList must be a list of keys or a function of the request, got [1]'
  ],
  'ipv6Subnet is out of range': [{ ipv6Subnet: 0 }, 'ipv6Subnet must be an integer from 1 to 128, got 0'],
  'skipOnError is text': [{ skipOnError: 'yes' }, 'skipOnError must be true or false, got "yes"'],
  'keyGenerator is text': [{ keyGenerator: 'ip' }, 'keyGenerator must be a function, got "ip"'],
  'groupId is a number': [{ groupId: 1 }, 'groupId must be a string, got 1'],
  'addHeaders is a list': [
    { addHeaders: ['retry-after'] },
    'addHeaders must be an object, got ["retry-after"]'
  ],
  'addHeaders has text': [
    { addHeaders: { 'retry-after': 'no' } },
    'addHeaders["retry-after"] must be true or false, got "no"'
  ],
  'store is one of its own': [
    { store: () => ({}) },
    'store cannot be carried over, and without it each process would count by itself: take it out, and give the plugin ' +
      'a store of its own, { ...fromFastifyRateLimit(options), store }, got a function'
  ],
  'options are none': [null, 'options must be an object, got null']
} as const

for (const [name, [options, message]] of Object.entries(WRONG)) {
  t.test(`refused, as it was never right or cannot be carried over: ${name}`, async t => {
    try {
      readPlugin(options)
      t.fail('it was accepted')
    } catch (error) {
      t.match(error, { code: 'FST_QUOTA_OPTION' })
      t.ok((error as Error).message.startsWith(`fromFastifyRateLimit: ${message}`), (error as Error).message)
    }
  })
}
