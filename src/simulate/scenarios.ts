import { burst, evenly } from './arrivals.js'
import type { Arrival } from './arrivals.js'
import type { Name } from './contenders.js'

/** Requests that show a difference between algorithms, and the quota they meet. */
export interface Scenario {
  readonly name: string
  readonly title: string
  /** What the requests are. */
  readonly about: string
  readonly quota: number
  /** Milliseconds. */
  readonly window: number
  readonly precisions: readonly number[]
  /** Algorithms that are also run with everything spent just before the first request. */
  readonly alsoDrained: readonly Name[]
  readonly arrivals: readonly Arrival[]
  readonly phases: readonly Phase[]
  /** Whether admissions are also counted per tenth of a second, for the first second. */
  readonly tenths: boolean
}

/** The same requests at another place on the clock. */
export interface Phase {
  readonly name: string
  /** Milliseconds by which they come later. */
  readonly shift: number
}

export const PRECISION = 10
export const UNSHIFTED: Phase = { name: '', shift: 0 }

const SECOND = 1000
const MINUTE = 60 * SECOND

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'A',
    title: 'Phase',
    about: '600 requests, one each 200ms; aligned from 0s, shifted from 30s',
    quota: 10,
    window: MINUTE,
    precisions: [PRECISION],
    alsoDrained: [],
    arrivals: evenly(0, 600, { requests: 5, per: SECOND }),
    phases: [
      { name: 'aligned', shift: 0 },
      { name: 'shifted', shift: 30 * SECOND }
    ],
    tenths: false
  },
  {
    name: 'B',
    title: 'Window edge',
    about: '10 requests at 990ms and 10 at 1010ms',
    quota: 10,
    window: SECOND,
    precisions: [PRECISION],
    alsoDrained: [],
    arrivals: [...burst(990, 10), ...burst(1010, 10)],
    phases: [UNSHIFTED],
    tenths: false
  },
  {
    name: 'C',
    title: 'One second of even traffic',
    about: '1000 requests, one each 1ms from 0s',
    quota: 100,
    window: SECOND,
    precisions: [6],
    alsoDrained: ['token-bucket'],
    arrivals: evenly(0, 1000, { requests: 1000, per: SECOND }),
    phases: [UNSHIFTED],
    tenths: true
  },
  {
    name: 'D',
    title: 'The approximation under attack',
    about: '100 requests at 59.999s, the last moment of a sub-window, then one each 5ms for 60s',
    quota: 100,
    window: MINUTE,
    precisions: [1, 6, 10, 60],
    alsoDrained: [],
    arrivals: [...burst(MINUTE - 1, 100), ...evenly(MINUTE + 4, 12_000, { requests: 200, per: SECOND })],
    phases: [UNSHIFTED],
    tenths: false
  }
]
