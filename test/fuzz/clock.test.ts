import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import type { PolicyOptions } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory.js'
import { howToRepeat, mostInAnyWindow, runs } from '../algorithms/kit.js'
import type { Admission } from '../algorithms/kit.js'
import { charge, policy } from '../stores/kit.js'
import { sized } from './hostile.js'

t.comment(howToRepeat)
t.setTimeout(60_000 + 20 * runs)

/** The most that may be admitted in any window, and the longest wait, as the README says. */
interface Promised {
  readonly options: (quota: number, window: number) => PolicyOptions
  readonly most: (quota: number, burst: number) => number
  readonly longest: (window: number) => number
}

const PRECISION = 4
const once = (quota: number): number => quota
const twice = (quota: number): number => 2 * quota
const thrice = (quota: number): number => 3 * quota
const aWindow = (window: number): number => window
const duration = (ms: number): `${number}ms` => `${ms}ms`

const PROMISES: Readonly<Record<string, Promised>> = {
  'sliding-window': {
    options: (quota, window) => ({ quota, window: duration(window), precision: PRECISION }),
    most: once,
    longest: aWindow
  },
  'sliding-window-log': {
    options: (quota, window) => ({ quota, window: duration(window), algorithm: 'sliding-window-log' }),
    most: once,
    longest: aWindow
  },
  'sliding-window-counter': {
    options: (quota, window) => ({
      quota,
      window: duration(window),
      algorithm: 'sliding-window-counter',
      precision: PRECISION
    }),
    most: twice,
    longest: window => Math.ceil(window * (1 + 1 / PRECISION))
  },
  'fixed-window': {
    options: (quota, window) => ({ quota, window: duration(window), algorithm: 'fixed-window' }),
    most: twice,
    longest: aWindow
  },
  'fixed-window on the clock': {
    options: (quota, window) => ({ quota, window: duration(window), algorithm: 'fixed-window', align: true }),
    // What was counted before the clock went back stays for a window that is not on the clock; then comes one that is.
    most: thrice,
    longest: aWindow
  },
  'token-bucket': {
    options: (quota, window) => ({ quota, window: duration(window), algorithm: 'token-bucket' }),
    most: twice,
    longest: aWindow
  },
  'leaky-bucket': {
    options: (quota, window) => ({ quota, window: duration(window), algorithm: 'leaky-bucket' }),
    most: twice,
    longest: aWindow
  },
  concurrency: {
    options: (quota, window) => ({ quota, algorithm: 'concurrency', holdFor: duration(window) }),
    most: once,
    longest: aWindow
  }
}

interface Move {
  readonly by: number
  readonly scale: 'ms' | 'share' | 'far'
  readonly wants: 'one' | 'rest' | 'more' | 'nothing'
}

const move: fc.Arbitrary<Move> = fc.record({
  by: fc.oneof(fc.constantFrom(0, 1, -1, 1000, -1000), fc.integer({ min: -1500, max: 1500 })),
  scale: fc.constantFrom('ms', 'share', 'share', 'share', 'far'),
  wants: fc.constantFrom('one', 'one', 'rest', 'rest', 'more', 'nothing')
})

const YEAR = 31_536_000_000
const distance = ({ by, scale }: Move, window: number): number =>
  scale === 'ms' ? by : Math.trunc((by * (scale === 'share' ? window : YEAR)) / 1000)

/** What is left is told for whole seconds. */
const shown = (ms: number): number => Math.ceil(ms / 1000) * 1000

const isInteger = (...numbers: readonly number[]): boolean =>
  numbers.every(one => Number.isSafeInteger(one) && one >= 0)

for (const [name, { options, most, longest }] of Object.entries(PROMISES)) {
  t.test(`${name}: no step of the clock gives quota away or locks anybody out`, async t => {
    let decisions = 0
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.integer({ min: PRECISION, max: 5000 }),
        fc.array(move, { maxLength: 40, size: 'max' }),
        fc.boolean(),
        (quota, window, moves, beside) => {
          let now = 1_800_000_000_000
          const store = memoryStore()
          store.useClock(() => now)
          const limited = policy('limited', options(quota, window))
          const other = policy('other', { quota: 1_000_000, window: '1h' })
          // Time as somebody sees it whom no clock can fool: going back takes none.
          let passed = 0
          const admissions: Admission[] = []
          const step = (by: number): void => {
            const next = Math.max(1, now + by)
            passed += Math.max(0, next - now)
            now = next
          }
          const spend = (units: number): ReturnType<typeof store.consume>['limits'][number] => {
            decisions++
            const charges = [charge(limited, units), ...(beside ? [charge(other)] : [])]
            const [limit] = store.consume(charges).limits
            const { allowed, remaining, effectiveWindow, retryAfter, delay } = limit!
            assert.ok(isInteger(remaining, effectiveWindow, delay), JSON.stringify(limit))
            assert.ok(isInteger(retryAfter) || retryAfter === -1 || retryAfter === -2, JSON.stringify(limit))
            assert.ok(remaining <= quota && effectiveWindow <= shown(longest(window)), JSON.stringify(limit))
            assert.ok(
              retryAfter <= longest(window),
              `a wait of ${retryAfter} ms for a window of ${window} ms`
            )
            if (allowed && units > 0) admissions.push({ at: passed, units })
            return limit!
          }
          for (const each of moves) {
            step(distance(each, window))
            const { remaining } = spend(0)
            const units = { one: 1, rest: remaining, more: remaining + 1, nothing: 0 }[each.wants]
            const { allowed, retryAfter } = spend(units)
            assert.equal(allowed, units <= remaining, `${units} of ${remaining}`)
            if (allowed || retryAfter < 0) continue
            step(retryAfter)
            assert.ok(spend(units).allowed, 'who waits as long as it was told is admitted')
          }
          const admitted = mostInAnyWindow(admissions, window)
          assert.ok(admitted <= most(quota, quota), `${admitted} in some window, of a quota of ${quota}`)
        }
      ),
      { numRuns: sized(2) }
    )
    t.comment(`${decisions} decisions`)
  })
}
