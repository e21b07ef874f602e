/**
 * @typedef {object} Terms
 * @property {number} quota
 * @property {number} window Milliseconds.
 *
 * @typedef {object} Wave Requests that are sent at once.
 * @property {number} at Milliseconds after the first request.
 * @property {number} requests
 *
 * @typedef {object} Attack
 * @property {(terms: Terms) => [Wave, ...Wave[]]} waves The first is at 0.
 * @property {(terms: Terms) => number} [phase] Begins so many milliseconds after a whole window on the server's clock;
 * without it, at once.
 */

/** @satisfies {Readonly<Record<string, Attack>>} */
export const ATTACKS = {
  // The first request opens a window, unless windows start on the clock: then it comes with one.
  edge: {
    waves: ({ quota, window }) => [
      { at: 0, requests: 1 },
      { at: 0.75 * window, requests: quota - 1 },
      { at: 1.05 * window, requests: quota }
    ],
    phase: () => 0
  },

  // At first all that is left in the last moment of a window, which is that of its last part too.
  drained: {
    waves: ({ quota, window }) => [
      { at: 0, requests: quota },
      ...evenly(Math.max(window / (10 * quota), 10), 1.25 * window)
    ],
    phase: ({ window }) => -0.05 * window
  },

  drip: {
    waves: ({ quota, window }) => [{ at: 0, requests: 1 }, ...evenly(window / (1.5 * quota), 2.5 * window)]
  },

  burst: {
    waves: ({ quota, window }) => [
      { at: 0, requests: 2 * quota },
      { at: 1.1 * window, requests: 2 * quota }
    ]
  }
}

/**
 * A request after each pause, until an end.
 *
 * @param {number} pause
 * @param {number} end
 * @returns {Wave[]}
 */
function evenly(pause, end) {
  return Array.from({ length: Math.floor(end / pause) }, (_, i) => ({ at: (i + 1) * pause, requests: 1 }))
}
