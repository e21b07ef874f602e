import { DEADLINE, NODE_TIMEOUT, RATE } from './scenes.js'
import type { Row } from './scenes.js'

const COLUMNS: readonly (readonly [title: string, width: number, cell: (row: Row) => string])[] = [
  ['cluster', -13, ({ layout }) => layout],
  ['fault', -8, ({ fault }) => fault],
  ['mode', -7, ({ mode }) => mode],
  ['req/s', 15, ({ rates }) => rates.map(({ perSecond }) => perSecond.toFixed(0)).join(' ')],
  ['of Redis', 15, ({ rates }) => rates.map(({ redis }) => redis.toFixed(0)).join(' ')],
  ['p99', 6, ({ p99 }) => p99.toFixed(0)],
  ['max', 6, ({ longest }) => longest.toFixed(0)],
  ['late', 6, ({ late }) => Math.max(0, late).toFixed(0)],
  ['failed', 8, ({ failed }) => String(failed)],
  ['elsewhere', 11, ({ failedElsewhere }) => String(failedElsewhere)],
  ['over', 6, ({ over }) => String(over)],
  ['lost', 6, ({ lost }) => String(lost)],
  ['in vain', 9, ({ vain }) => String(vain)],
  ['local', 7, ({ local }) => String(local)],
  ['failover', 10, ({ failover }) => failover.toFixed(0)],
  ['back after', 12, ({ recovery }) => recovery.toFixed(0)],
  ['stalled', 9, ({ stalled }) => stalled.toFixed(0)],
  ['downs', 7, ({ downs }) => String(downs)]
]

/** What stands above {@link lines}. */
export const heading: string = [
  'A master of a cluster is killed, stopped, or gives slots away, under load. Milliseconds, and units.',
  `Node timeout ${NODE_TIMEOUT} ms, deadline ${DEADLINE} ms, ${RATE} decisions a second for each store; before, during, after.`,
  '',
  COLUMNS.map(([title, width]) => padded(title, width)).join('')
].join('\n')

/** Rows for a person. */
export const lines = (rows: readonly Row[]): string =>
  rows
    .map(row => {
      const cells = COLUMNS.map(([, width, cell]) => padded(cell(row), width)).join('')
      return row.problems.length === 0 ? cells : `${cells}   ! ${row.problems.join('; ')}`
    })
    .join('\n')

function padded(text: string, width: number): string {
  return width < 0 ? text.padEnd(-width) : text.padStart(width)
}
