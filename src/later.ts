/** A value that may have to be waited for. What is known at once is never wrapped in a promise. */
export type Later<T> = T | Promise<T>

export function isLater<T>(value: Later<T>): value is Promise<T> {
  return typeof (value as Promise<T> | undefined | null)?.then === 'function'
}

/** Goes on with a value: now if it is known, else when it is. */
export function whenKnown<T, R>(value: Later<T>, use: (value: T) => Later<R>): Later<R> {
  return isLater(value) ? value.then(use) : use(value)
}
