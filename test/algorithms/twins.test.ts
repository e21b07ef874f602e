import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import fc from 'fast-check'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Algorithm, Terms } from '../../src/algorithm.js'
import { leakyBucket, tokenBucket } from '../../src/algorithms/bucket.js'
import { concurrency } from '../../src/algorithms/concurrency.js'
import { fixedWindow } from '../../src/algorithms/fixed-window.js'
import { algorithms } from '../../src/algorithms/index.js'
import { slidingWindowCounter } from '../../src/algorithms/sliding-window-counter.js'
import { slidingWindow } from '../../src/algorithms/sliding-window.js'
import { howToRepeat, runs } from './kit.js'
import type { Subject } from './kit.js'
import { compared, fitted, parity } from './twins.js'

t.comment(howToRepeat)
t.setTimeout(60_000 + 200 * runs)

const redis = await startRedis()

const subject = (algorithm: Algorithm, kind: Subject['kind'], chosen: (terms: Terms) => Terms): Subject => ({
  algorithm,
  kind,
  terms: terms => fitted(algorithm, chosen(terms)),
  capacity: terms => algorithm.capacity(algorithm.params(terms)),
  // Laws are for others to keep.
  bound: () => Infinity,
  memory: () => Infinity
})

const asWindow = (terms: Terms): Terms => ({ ...terms, maxDelay: 0 })
const asLog = (terms: Terms): Terms => ({ ...asWindow(terms), precision: terms.window })
const asCounter = (terms: Terms): Terms => ({
  ...asWindow(terms),
  precision: Math.min(terms.precision, terms.window)
})
const asQueue = (terms: Terms): Terms => terms
const asLeases = (terms: Terms): Terms => ({
  ...terms,
  quota: Math.min(terms.quota, 2 ** 51),
  window: terms.holdFor
})

const subjects = {
  'sliding-window': subject(slidingWindow, 'rate', asWindow),
  'sliding-window-log': subject(slidingWindow, 'rate', asLog),
  'sliding-window-counter': subject(slidingWindowCounter, 'rate', asCounter),
  'fixed-window': subject(fixedWindow, 'rate', asWindow),
  'token-bucket': subject(tokenBucket, 'rate', asWindow),
  'leaky-bucket': subject(leakyBucket, 'rate', asWindow),
  'leaky-bucket with maxDelay': subject(leakyBucket, 'queue', asQueue),
  concurrency: subject(concurrency, 'leases', asLeases)
} as const satisfies Record<string, Subject>

for (const [name, subject] of Object.entries<Subject>(subjects)) {
  t.test(`${name}: its twin answers the same, digit by digit`, async t => {
    const { calls } = compared
    await fc.assert(parity(redis, subject, subject.algorithm.lua))
    t.pass(`${compared.calls - calls} calls in ${runs} runs`)
  })
}

t.test('every algorithm is listed here', async t => {
  const listed = new Set(Object.values<Subject>(subjects).map(({ algorithm }) => algorithm.name))
  t.strictSame([...listed].toSorted(), [...algorithms.keys()].toSorted())
  t.equal(leakyBucket.lua, tokenBucket.lua)
})

t.test('a twin writes no numbers, and takes no remainders, which differ below 0', async t => {
  for (const { name, lua } of algorithms.values()) t.notMatch(lua, /%|\.\.|\bgoto\b/, name)
})

// --- Whether a difference would be noticed ----------------------------------------------------------------------------

interface Slip {
  readonly name: string
  readonly subject: Subject
  readonly right: string
  readonly wrong: string
}

const slip = (name: string, subject: Subject, right: string, wrong: string): Slip => ({
  name,
  subject,
  right,
  wrong
})

const {
  'sliding-window': sliding,
  'sliding-window-log': log,
  'sliding-window-counter': counter,
  'fixed-window': fixed,
  'token-bucket': bucket,
  'leaky-bucket with maxDelay': queue,
  concurrency: leases
} = subjects

const slips: readonly Slip[] = [
  slip(
    'an entry that counts a millisecond longer',
    sliding,
    'latest + window > now',
    'latest + window >= now'
  ),
  slip('an entry that leaves a millisecond early', log, 'latest + window > now', 'latest + window - 1 > now'),
  slip('a sub-window that is a millisecond longer', sliding, '* precision < window', '* precision <= window'),
  slip('a time later than now', log, 'math.min(state[i + 1], now)', 'state[i + 1]'),
  slip('a latest time later than now', sliding, 'math.min(state[i + 2], now)', 'state[i + 2]'),
  slip('an effective window rounded down', sliding, 'math.ceil((remaining', 'math.floor((remaining'),
  slip('seconds rounded down', sliding, 'math.ceil(window / 1000)', 'math.floor(window / 1000)'),
  slip('a refund to the entry after', log, 'at <= entries[i + 2]', 'at < entries[i + 2]'),
  slip('a wait for one unit less', sliding, 'used - quota + units)', 'used - quota + units - 1)'),
  slip('an admission that leaves with the first of its entry', sliding, 'entries[last + 2] = now', ''),

  slip('a sub-window too few', counter, 'passed > precision', 'passed >= precision'),
  slip('a clock that goes back', counter, 'math.max(0, passed + i - 2)', 'passed + i - 2'),
  slip(
    'a state that starts one sub-window late',
    counter,
    '{ index - newest + 1 }',
    '{ index - newest + 2 }'
  ),
  slip('a wait that is a part short', counter, '/ count) + 1)', '/ count))'),
  slip('a tick that is a millisecond', counter, '/ quota) * tick', '/ quota)'),
  slip('a time in milliseconds', counter, 'math.floor(time / tick)', 'math.floor(time)'),
  slip(
    'a refund to the sub-window before',
    counter,
    'counts[age + 1] = math.max',
    'counts[age + 2] = math.max'
  ),
  slip('an estimate of what has left', counter, '(parts - offset)', 'offset'),
  slip(
    'debt beyond a quota',
    counter,
    'math.max(0, 2 * quota - math.floor',
    'math.max(0, 3 * quota - math.floor'
  ),

  slip('a window that is a millisecond longer', fixed, 'start + window <= now', 'start + window < now'),
  slip('a start later than now', fixed, 'math.min(start, now)', 'start'),
  slip('a window that opens with its first request', fixed, 'align == 1', 'align == 2'),
  slip('a refund of what was charged at the start', fixed, 'start <= at', 'start < at'),
  slip('debt without a bound', fixed, 'math.max(0, 2 * quota - count))', '2 ^ 53)'),
  slip('never instead of not yet', fixed, 'fits and left or NEVER', 'NEVER'),

  slip('a drain by a clock that goes back', bucket, 'math.max(0, at - last)', '(at - last)'),
  slip('a wait rounded down', bucket, 'math.ceil(parts', 'math.floor(parts'),
  slip('a wait in ticks', bucket, ')) * tick - now', ')) - now'),
  slip(
    'numbers of 14 digits',
    bucket,
    'debt == 0 and {} or { debt, at },',
    'debt == 0 and {} or { debt .. "", at },'
  ),
  slip(
    'a refund of what has drained',
    bucket,
    'charge.units * period - drainedSince',
    'charge.units * period'
  ),
  slip('a burst that does not quite fit', bucket, 'over <= 0', 'over < 0'),
  slip('a place in the queue that is given back', queue, 'queue == 1 and 0 or', ''),
  slip('a delay of its last unit, too', queue, '(units - 1) * period', 'units * period'),

  slip('a lease that lives a millisecond longer', leases, 'state[i + 1] > now', 'state[i + 1] >= now'),
  slip('a lease later than a new one', leases, 'math.min(state[i + 1], now + holdFor)', 'state[i + 1]'),
  slip('the release of another lease', leases, 'leases[i + 1] > expiry', 'leases[i + 1] >= expiry'),
  slip('the release of a whole lease', leases, 'leases[i] > units', 'leases[i] > units * 2'),
  slip('leases that expire together', leases, 'leases[last + 1] == expiry', 'leases[last + 1] == 0'),
  slip(
    'a change of the parameters',
    leases,
    'local leases, length = {}, 0',
    'params[1] = 0 local leases, length = {}, 0'
  ),
  slip('a renewal of all that is held', leases, 'held - total(rest)', 'held'),
  slip('a receipt of now', leases, 'return now + holdFor', 'return now')
]

/** As many as are usual, however many are asked for: the first that differs is enough. */
const USUAL = 400

for (const { name, subject, right, wrong } of slips) {
  t.test(`${subject.algorithm.name}: ${name} would be noticed`, async t => {
    const { lua } = subject.algorithm
    t.equal(lua.split(right).length, 2, 'what is replaced is there, once')
    const slipped = lua.replaceAll(right, wrong)
    const found = await fc.check(parity(redis, subject, slipped), { numRuns: USUAL, endOnFailure: true })
    t.equal(found.failed, true)
    t.type(found.errorInstance, assert.AssertionError, 'an answer that differs, not a script that fails')
    t.comment(`in run ${found.numRuns}`)
  })
}

/** A Redis of its own, on a free port of the loopback interface, until the tests are over. */
async function startRedis(): Promise<Redis> {
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  await once(free.close(), 'close')
  const server = spawn('redis-server', ['--port', `${port}`, '--bind', '127.0.0.1', '--save', ''])
  for await (const output of server.stdout) if (`${output}`.includes('Ready to accept connections')) break
  const redis = new Redis(port, '127.0.0.1')
  t.teardown(async () => {
    redis.disconnect()
    server.kill()
    await once(server, 'exit')
  })
  return redis
}
