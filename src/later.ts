/** A value that may have to be waited for. What is known at once is never wrapped in a promise. */
export type Later<T> = T | Promise<T>

/** Whether a value has to be waited for. A thenable that is no promise has `then` only: pass it to {@link whenKnown}. */
export function isLater<T>(value: Later<T>): value is Promise<T> {
  if (typeof value !== 'object' && typeof value !== 'function') return false
  return typeof (value as Promise<T> | null)?.then === 'function'
}

/** Does what nobody waits for; `report` is told if it fails, now or later. */
export function attempt(work: () => Later<unknown>, report: (error: unknown) => void): void {
  try {
    const done = work()
    if (isLater(done)) done.then(undefined, report)
  } catch (error) {
    report(error)
  }
}

/** Goes on with a value: now if it is known, else when it is. */
export function whenKnown<T, R>(value: Later<T>, use: (value: T) => Later<R>): Later<R> {
  return isLater(value) ? Promise.resolve(value).then(use) : use(value)
}
