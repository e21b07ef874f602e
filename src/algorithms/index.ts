import type { Algorithm } from '../algorithm.js'
import { tokenBucket } from './bucket.js'
import { fixedWindow } from './fixed-window.js'
import { slidingWindow } from './sliding-window.js'

/** Every algorithm a policy can be written with, by name. */
export const algorithms: ReadonlyMap<string, Algorithm> = new Map(
  [slidingWindow, fixedWindow, tokenBucket].map(algorithm => [algorithm.name, algorithm])
)
