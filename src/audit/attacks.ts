import { MAPPED, UNMAPPED, WAYS } from './ways.js'
import type { Way } from './ways.js'

/** What an attack is made for. */
export interface Terms {
  /** Requests that the promise allows in a window. */
  readonly quota: number
  /** Milliseconds. */
  readonly window: number
  /** Milliseconds after which a burst has been counted. */
  readonly precision: number
}

/** A request of an attack. */
export interface Send {
  /** Milliseconds from the beginning of the attack. */
  readonly at: number
  /** Of requests that try a way around: which. */
  readonly way?: Way
}

/** An attack as a plan: when to send what. */
export interface Attack {
  readonly name: string
  /** As a sentence. */
  readonly about: string
  /** Windows without a request before it, so that nothing is left of what was before. */
  readonly idle: number
  /**
   * Where it begins, in milliseconds after an edge: of the window of the server as far as it was found, or of a window on
   * the clock. `undefined`: anywhere.
   */
  readonly start?: (terms: Terms) => { readonly after: 'found' | 'clock'; readonly offset: number }
  /** In the order of their times. */
  readonly sends: (terms: Terms) => readonly Send[]
  /** How often it does all that; after each time it waits for as long as the last refusal says, and sends one more. */
  readonly rounds?: number
  /** Whether it is one of those that are only run when asked for. */
  readonly bypass?: true
}

/** The attacks, those first that show the most. The first one finds the edges that others begin at. */
export const ATTACKS: readonly Attack[] = [
  {
    name: 'drained',
    about: 'spends all and more at once, then keeps asking for longer than a window',
    idle: 1.1,
    // Away from edges, so that counters on the clock do not look like buckets.
    start: ({ window }) => ({ after: 'clock', offset: 0.35 * window }),
    sends: terms => [...burst(0, 2 * terms.quota), ...steady(terms, step(terms), 1.3 * terms.window)]
  },
  {
    name: 'edge-burst',
    about: 'opens a window with one request, fills its end, and then the start of the next one',
    idle: 1.1,
    start: ({ window }) => ({ after: 'found', offset: EDGE * window * 0.25 }),
    sends: terms => {
      const { quota, window } = terms
      const after = window * (1 + EDGE)
      return [
        { at: 0 },
        ...burst(window * (1 - EDGE), quota),
        ...burst(after, quota),
        ...steady(terms, after + step(terms), 2 * window)
      ]
    }
  },
  {
    name: 'sub-window-burst',
    about: 'spends all in the last moment of a sub-window, then asks the more the nearer a window has passed',
    // Counters of one sub-window remember the one before.
    idle: 2,
    start: terms => ({ after: 'clock', offset: -lead(terms) }),
    sends: terms => [...burst(0, terms.quota), ...closingIn(terms)]
  },
  shifted(50),
  {
    name: 'obedient',
    about: 'spends all, waits for as long as it is told, and asks again; twice',
    idle: 1.1,
    sends: ({ quota }) => burst(0, quota + 1),
    rounds: 2
  },
  {
    name: 'cold-start',
    about: 'asks for four times the quota in the first second after idleness',
    idle: 1.1,
    sends: ({ quota, window }) => evenly(0, Math.min(1000, window), 4 * quota)
  },
  {
    name: 'parallel',
    about: 'asks for three times the quota at the same instant, on as many connections as allowed',
    idle: 1.1,
    sends: ({ quota }) => burst(0, 3 * quota)
  },
  shifted(0),
  {
    name: 'slow-drip',
    about: 'asks for one and a half times the quota, evenly, for two windows',
    idle: 1.1,
    sends: ({ quota, window }) => evenly(0, 2 * window, 3 * quota)
  },
  shifted(25),
  shifted(75),
  ...WAYS.map(way => around(way)),
  around(MAPPED, UNMAPPED)
]

/** How near to an edge its bursts are, in windows: near enough for both to fit in one, and far enough to miss. */
const EDGE = 0.05

/** Long enough before an edge to be counted before it, and short enough to be in its sub-window. */
const lead = ({ window, precision }: Terms): number => Math.min(precision, Math.ceil(window / 50))

/** Time between requests that keep asking: many times more often than the quota allows. */
const step = ({ quota, window }: Terms): number => window / Math.max(50, 3 * quota)

function shifted(percent: number): Attack {
  const where = percent === 0 ? 'an edge' : `${percent}% of the way from one edge to the next`
  return {
    name: percent === 0 ? 'aligned' : `shifted-${percent}`,
    about: `keeps asking many times too often, from ${where} of the windows of the server`,
    idle: 1.1,
    start: ({ window }) => ({ after: 'found', offset: (percent / 100) * window }),
    sends: terms => steady(terms, 0, 1.6 * terms.window)
  }
}

/** Spends all in one way, and asks on in another one. */
function around(way: Way, usually?: Way): Attack {
  const usual = usually === undefined ? {} : { way: usually }
  return {
    name: `bypass-${way.name}`,
    about: `spends all, then tries a way around: ${way.about}`,
    idle: 1.1,
    sends: ({ quota, window }) => [
      ...burst(0, 2 * quota).map(send => ({ ...send, ...usual })),
      ...evenly(window * EDGE, window / 4, quota).map(send => ({ ...send, way }))
    ],
    bypass: true
  }
}

function burst(at: number, count: number): Send[] {
  return Array.from({ length: count }, () => ({ at }))
}

function evenly(from: number, length: number, count: number): Send[] {
  return Array.from({ length: count }, (_, i) => ({ at: from + (i * length) / count }))
}

function steady(terms: Terms, from: number, to: number): Send[] {
  return evenly(from, to - from, Math.ceil((to - from) / step(terms)))
}

/** Counters give a burst back in the last sub-window before it is a window old, and nobody tells how short that is. */
function closingIn(terms: Terms): Send[] {
  const { quota, window, precision } = terms
  const dense = Math.max(25, Math.ceil(1.25 * quota))
  const sends = steady(terms, step(terms), 0.75 * window)
  let left = 0.25 * window
  while (left > 2 * precision && left > window / 100) {
    sends.push(...evenly(window - left, left / 2, dense))
    left /= 2
  }
  return [...sends, ...evenly(window - left, left + lead(terms), dense)]
}
