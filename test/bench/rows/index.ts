import type { Row } from '../row.js'
import { httpRows } from './http.js'
import { loopRows } from './loops.js'
import { memoryRows } from './memory.js'

const number = ({ name }: Row): number => Number(name.slice(1))

/** All lines of the table, in their order. */
export const rows: readonly Row[] = [...httpRows, ...loopRows, ...memoryRows].toSorted(
  (a, b) => number(a) - number(b)
)
