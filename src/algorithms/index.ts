import type { Algorithm } from '../algorithm.js'
import { leakyBucket, tokenBucket } from './bucket.js'
import { concurrency } from './concurrency.js'
import { fixedWindow } from './fixed-window.js'
import { slidingWindowCounter } from './sliding-window-counter.js'
import { slidingWindow } from './sliding-window.js'

/** Every algorithm a policy can be written with, by name. */
export const algorithms: ReadonlyMap<string, Algorithm> = new Map(
  [slidingWindow, slidingWindowCounter, fixedWindow, tokenBucket, leakyBucket, concurrency].map(algorithm => [
    algorithm.name,
    algorithm
  ])
)
