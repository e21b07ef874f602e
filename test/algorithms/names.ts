import type { AlgorithmName } from '../../src/policy-options.js'

/** All names that an operator can write, as the README lists them. */
export const ALGORITHMS: readonly AlgorithmName[] = [
  'sliding-window',
  'sliding-window-log',
  'sliding-window-counter',
  'fixed-window',
  'token-bucket',
  'leaky-bucket',
  'concurrency'
]
