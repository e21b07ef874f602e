import type { Row } from '../row.js'
import { batchRows } from './batches.js'
import { httpRows } from './http.js'
import { loopRows } from './loops.js'
import { memoryRows } from './memory.js'
import { pauseRows } from './pauses.js'
import { redisRows } from './redis.js'

/** All lines of the table, in the order of their numbers. */
export const rows: readonly Row[] = [
  ...httpRows,
  ...loopRows,
  ...memoryRows,
  ...redisRows,
  ...batchRows,
  ...pauseRows
].toSorted((a, b) => number(a) - number(b))

function number({ name }: Row): number {
  return Number(name.slice(1))
}
