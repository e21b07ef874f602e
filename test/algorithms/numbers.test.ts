import t from 'tap'
import { EMPTY } from '../../src/algorithm.js'
import { compilePolicy } from '../../src/policy.js'
import type { QuotaPolicy } from '../../src/policy.js'
import type { PolicyOptions } from '../../src/policy-options.js'
import { memoryStore } from '../../src/stores/memory.js'
import { mostInAnyWindow } from './kit.js'
import type { Admission } from './kit.js'

/** What four kinds of traffic make each algorithm admit, exactly, through the pure step and through the memory store. */

/** A whole minute since the epoch: there a window aligned to the clock opens. */
const T0 = 29_231_667 * 60_000

/** Who was admitted of those who ask for one unit each at these times, in milliseconds after {@link T0}. */
type Limiter = (policy: QuotaPolicy, times: readonly number[], prepare?: number) => readonly Admission[]

const limiters: Readonly<Record<string, Limiter>> = {
  'the pure step'({ algorithm, params }, times, drained = 0) {
    let { state } = algorithm.step(EMPTY, params, T0, drained)
    return admitted(times, at => {
      const step = algorithm.step(state, params, T0 + at, 1)
      state = step.state
      return step.allowed
    })
  },
  'the memory store'(policy, times, drained = 0) {
    let now = T0
    const store = memoryStore()
    store.useClock(() => now)
    store.consume([{ partition: 'p', policy, units: drained }])
    const admissions = admitted(times, at => {
      now = T0 + at
      return store.consume([{ partition: 'p', policy, units: 1 }]).limits[0]!.allowed
    })
    store.close()
    return admissions
  }
}

const admitted = (times: readonly number[], ask: (at: number) => boolean): Admission[] =>
  times.filter(ask).map(at => ({ at, units: 1 }))

const policy = (options: PolicyOptions): QuotaPolicy => compilePolicy('measured', options, [])
const within = (admissions: readonly Admission[], from: number, to: number): number =>
  admissions.filter(({ at }) => at >= from && at < to).length

const minute = { quota: 10, window: '60s' } as const
const ALIGNED = Array.from({ length: 600 }, (_, i) => i * 200)
const SHIFTED = ALIGNED.map(at => at + 30_000)

interface Figures {
  readonly anyWindow: number
  readonly excess: string
  readonly inAll: number
  readonly firstSecond: number
}

const figures = (admissions: readonly Admission[], start: number): Figures => {
  const anyWindow = mostInAnyWindow(admissions, 60_000)
  return {
    anyWindow,
    excess: `${(anyWindow / minute.quota).toFixed(2)}x`,
    inAll: admissions.length,
    firstSecond: within(admissions, start, start + 1000)
  }
}

const phase: readonly (readonly [options: PolicyOptions, aligned: Figures, shifted: Figures])[] = [
  [
    { ...minute, algorithm: 'fixed-window', align: true },
    { anyWindow: 10, excess: '1.00x', inAll: 20, firstSecond: 5 },
    { anyWindow: 20, excess: '2.00x', inAll: 30, firstSecond: 5 }
  ],
  [
    { ...minute, algorithm: 'sliding-window-log' },
    { anyWindow: 10, excess: '1.00x', inAll: 20, firstSecond: 5 },
    { anyWindow: 10, excess: '1.00x', inAll: 20, firstSecond: 5 }
  ],
  [
    { ...minute, algorithm: 'token-bucket', burst: 10 },
    { anyWindow: 19, excess: '1.90x', inAll: 29, firstSecond: 5 },
    { anyWindow: 19, excess: '1.90x', inAll: 29, firstSecond: 5 }
  ],
  [
    { ...minute, algorithm: 'sliding-window' },
    { anyWindow: 10, excess: '1.00x', inAll: 20, firstSecond: 5 },
    { anyWindow: 10, excess: '1.00x', inAll: 20, firstSecond: 5 }
  ]
]

for (const [name, limit] of Object.entries(limiters)) {
  t.test(`A, phase, through ${name}`, async t => {
    for (const [options, aligned, shifted] of phase) {
      t.strictSame(figures(limit(policy(options), ALIGNED), 0), aligned, `${options.algorithm}, aligned`)
      t.strictSame(figures(limit(policy(options), SHIFTED), 30_000), shifted, `${options.algorithm}, shifted`)
    }
  })

  t.test(`B, window edge, through ${name}`, async t => {
    const second = { quota: 10, window: '1s' } as const
    const times = [...Array<number>(10).fill(990), ...Array<number>(10).fill(1010)]
    t.equal(limit(policy({ ...second, algorithm: 'fixed-window', align: true }), times).length, 20)
    for (const algorithm of ['sliding-window', 'sliding-window-log'] as const) {
      const admissions = limit(policy({ ...second, algorithm }), times)
      t.strictSame(
        admissions.map(({ at }) => at),
        Array<number>(10).fill(990),
        `${algorithm}: the 11th is refused`
      )
    }
  })

  t.test(`C, a second of even traffic, through ${name}`, async t => {
    const times = Array.from({ length: 1000 }, (_, i) => i)
    const second = { quota: 100, window: '1s' } as const
    const counter = policy({ ...second, algorithm: 'sliding-window-counter', precision: 6 })
    t.equal(limit(counter, times).length, 100)
    for (const algorithm of ['token-bucket', 'leaky-bucket'] as const) {
      const bucket = policy({ ...second, algorithm, burst: 100 })
      const admissions = limit(bucket, times)
      t.equal(admissions.length, 199, algorithm)
      t.strictSame(
        Array.from({ length: 10 }, (_, tenth) => within(admissions, tenth * 100, tenth * 100 + 100)),
        [100, 19, 10, 10, 10, 10, 10, 10, 10, 10]
      )
      t.equal(limit(bucket, times, 100).length, 99, 'drained just before')
    }
  })

  t.test(`D, after a burst at the last moment of a sub-window, through ${name}`, async t => {
    const second = { quota: 100, window: '60s' } as const
    for (const precision of [1, 6, 10, 60]) {
      const last = 60_000 / precision - 1
      const times = [
        ...Array<number>(100).fill(last),
        ...Array.from({ length: 24_000 }, (_, i) => last + i * 5)
      ]
      const most = (algorithm: PolicyOptions['algorithm'] & {}): number =>
        mostInAnyWindow(limit(policy({ ...second, algorithm, precision }), times), 60_000)
      t.equal(most('sliding-window'), 100, `precision ${precision}`)
      t.equal(most('sliding-window-counter'), 200, `the approximation, precision ${precision}`)
    }
  })
}
