import { extentOf } from './panels.js'
import type { Shown } from './panels.js'
import { timesOf } from './playing.js'
import type { Played } from './playing.js'

/** What fired for what, and when, in minutes. */
export function tableOfAlerts(all: readonly Played[], minute: number): string {
  const rows = all.flatMap(played => {
    const { scene, stood } = played
    const times = timesOf(played, minute).map(({ alert, fired, cleared }) => [
      `${alert}${scene.alerts.includes(alert) ? '' : ' (for nothing)'}`,
      fired.toFixed(1),
      cleared.toFixed(1)
    ])
    return (times.length > 0 ? times : [['none', '-', '-']]).map((cells, i) =>
      i === 0 ? [scene.name, stood.toFixed(), ...cells] : ['', '', ...cells]
    )
  })
  return table([['what goes wrong', 'stood, ms', 'alert', 'fired after', 'cleared after'], ...rows])
}

/** What each query showed. */
export function tableOfPanels(all: readonly Shown[]): string {
  const rows = all.map(shown => {
    const { series, points, min, max } = extentOf(shown)
    return [shown.panel, String(series), String(points), short(min), short(max)]
  })
  return table([['panel', 'series', 'points', 'min', 'max'], ...rows])
}

const short = (value: number): string => String(Number(value.toPrecision(3)))

function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map(row => row[column]!.length)))
  return rows
    .map(row =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join('  ')
        .trimEnd()
    )
    .join('\n')
}
