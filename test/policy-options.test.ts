import t from 'tap'
import { isUnits, readCost, readPolicyOptions } from '../src/policy-options.js'

const refuse = (message: string): never => {
  throw new RangeError(message)
}

const read = (written: unknown): object => ({ ...readPolicyOptions(refuse, written) })
const base = { quota: 10, window: '1m' }

const OPTIONS =
  'expected quota, window, algorithm, precision, largeLog, align, burst, maxDelay, holdFor, maxHold, unit, cost, ' +
  'refund, partition, hook, default, exempt, mode, advertise, onStoreFailure, batch, status'

t.test('options are what was written, by name', async t => {
  const written = { ...base, refund: () => true, maxDelay: '1s', banned: undefined }
  t.throws(
    () => read(written),
    new RangeError(`unknown option "banned" with the value undefined; ${OPTIONS}`)
  )
  const { banned, ...known } = written
  t.equal(banned, undefined)
  t.strictSame(read(known), known)
  t.equal(Object.getPrototypeOf(readPolicyOptions(refuse, known)), null, 'and nothing that objects inherit')
  t.equal(Object.getPrototypeOf(readPolicyOptions(refuse, '1/1m')), null)
})

t.test('a short policy is the quota and the window', async t => {
  const table: readonly (readonly [written: string, quota: number, window: string])[] = [
    ['100/1m', 100, '1m'],
    ['0/10s', 0, '10s'],
    ['1/500ms', 1, '500ms'],
    ['999999999/1d', 999_999_999, '1d']
  ]
  for (const [written, quota, window] of table) {
    t.strictSame(read(written), { quota, window })
  }
  const wrong = [
    '',
    '100',
    '100/60',
    '100/m',
    '/1m',
    '100 / 1m',
    '-1/1m',
    '1.5/1m',
    '1e3/1m',
    '100/1h30m',
    '1m/100'
  ]
  for (const written of wrong) {
    t.throws(
      () => read(written),
      new RangeError(
        `a short policy is written like '100/1m', with ms, s, m, h or d, got ${JSON.stringify(written)}`
      )
    )
  }
})

t.test('what is no object and no text is refused with both', async t => {
  for (const [written, shown] of [
    [undefined, 'undefined'],
    [10, '10'],
    [true, 'true'],
    [() => base, 'a function']
  ] as const) {
    t.throws(
      () => read(written),
      new RangeError(`a policy must be an object, or text like '100/1m', got ${shown}`)
    )
  }
  t.throws(() => read(null), new RangeError('a policy must be an object, got null'))
  t.throws(() => read([]), new RangeError('a policy must be an object, got []'))
  t.throws(() => read(new Map()), new RangeError('a policy must be a plain object, got an instance of Map'))
})

t.test('of an object under an unknown name only the keys are told', async t => {
  t.throws(
    () => read({ ...base, redis: { host: 'redis', password: 'secret' } }),
    new RangeError(`unknown option "redis" with the value an object with "host", "password"; ${OPTIONS}`)
  )
})

t.test('the words of other limiters and near misses get the right suggestion', async t => {
  const text = ", in seconds or text like '1m'"
  const table: readonly (readonly [key: string, word: string, remark?: string])[] = [
    ['limit', 'quota'],
    ['max', 'quota'],
    ['points', 'quota'],
    ['qouta', 'quota'],
    ['quotas', 'quota'],
    ['timeWindow', 'window', text],
    ['windowMs', 'window', text],
    ['duration', 'window', text],
    ['ttl', 'window', text],
    ['widnow', 'window'],
    ['Window', 'window'],
    ['keyGenerator', 'partition'],
    ['partiton', 'partition'],
    ['allowList', 'exempt'],
    ['skip', 'exempt'],
    ['weight', 'cost'],
    ['costs', 'cost'],
    ['capacity', 'burst'],
    ['strategy', 'algorithm'],
    ['algorithim', 'algorithm'],
    ['statusCode', 'status'],
    ['dryRun', 'mode'],
    ['advertize', 'advertise'],
    ['skipOnError', 'onStoreFailure'],
    ['onStoreFailre', 'onStoreFailure'],
    ['maxdelay', 'maxDelay'],
    ['holdfor', 'holdFor'],
    ['refunds', 'refund'],
    ['largelog', 'largeLog']
  ]
  for (const [key, word, remark = ''] of table) {
    t.throws(
      () => read({ ...base, [key]: 7 }),
      new RangeError(`unknown option "${key}" with the value 7; did you mean "${word}"${remark}?`)
    )
  }
  for (const key of ['banana', 'constructor', 'toString', 'hasOwnProperty', 'name']) {
    t.throws(
      () => read({ ...base, [key]: 7 }),
      new RangeError(`unknown option "${key}" with the value 7; ${OPTIONS}`)
    )
  }
})

t.test('a cost is an integer of 0 or more, or a function', async t => {
  const cost = (): number => 1
  t.equal(readCost(refuse, 'cost', cost), cost)
  t.equal(readCost(refuse, 'cost', 5), 5)
  t.ok(Object.is(readCost(refuse, 'cost', -0), 0), 'minus zero is zero')
  t.throws(
    () => readCost(refuse, 'cost of "daily"', [1]),
    new RangeError(
      'cost of "daily" must be an integer from 0 to 999999999999999 or a function of the request, got [1]'
    )
  )
})

t.test('units are integers that a structured field can carry', async t => {
  for (const value of [0, 1, 999_999_999_999_999]) t.ok(isUnits(value), String(value))
  for (const value of [-1, 0.5, 1e15, Number.NaN, Infinity, '1', 1n, null, undefined]) {
    t.notOk(isUnits(value), String(value))
  }
})
