import { http } from './http/stage.js'
import { loops } from './loops/stage.js'
import { batches } from './batches/stage.js'
import { memory } from './memory/stage.js'
import { pauses } from './pauses/stage.js'
import { redis } from './redis/stage.js'
import type { Stage } from './stage.js'

/** All ways of measuring, in the order they are used. */
export const stages: readonly Stage[] = [memory, loops, pauses, batches, redis, http]
