/**
 * How many of some times lie in the window that ends at a moment, for all moments: it changes at these steps. A time is in
 * the window of its own moment, and no longer in that of one window later.
 *
 * @param {readonly number[]} times
 * @param {number} window
 */
export function countInWindow(times, window) {
  const changes = times.flatMap(at => [
    { at, by: 1 },
    { at: at + window, by: -1 }
  ])
  let count = 0
  return changes
    .sort((one, other) => one.at - other.at || one.by - other.by)
    .map(({ at, by }) => ({ at, count: (count += by) }))
}

/**
 * The step with the highest count, the first if there are several.
 *
 * @param {readonly { readonly at: number, readonly count: number }[]} steps
 */
export function highest(steps) {
  return steps.reduce((most, step) => (step.count > most.count ? step : most), { at: 0, count: 0 })
}
