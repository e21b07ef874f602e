import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = new URL('../../../', import.meta.url)

export const ALERTS: string = fileURLToPath(new URL('examples/metrics/alerts.yml', root))

/** The tests of `promtool` for them. */
export const ALERTS_TESTS: string = fileURLToPath(new URL('test/metrics/alerts.yml', root))

export interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly datasource?: { readonly uid: string }
  readonly targets?: readonly { readonly expr: string }[]
}

export const DASHBOARD: { readonly panels: readonly Panel[] } = JSON.parse(
  readFileSync(new URL('examples/metrics/dashboard.json', root), 'utf8')
)

/** The panels that ask for something. */
export const panels = (): readonly Panel[] => DASHBOARD.panels.filter(({ type }) => type !== 'row')

export const queriesOf = ({ targets = [] }: Panel): readonly string[] => targets.map(({ expr }) => expr)
