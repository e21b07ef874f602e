import type { Client } from './client.js'
import { verdict } from './demands.js'
import { forms } from './forms.js'
import type { Sight } from './servers.js'

export interface Installed extends Client {
  readonly version: string
}

type Cells = readonly string[]

const NAME = 26

/** What each client made of each form that was sent without the others. */
export function aloneTable(
  wait: number,
  clients: readonly Installed[],
  sights: readonly (readonly Sight[])[]
): string {
  const names = forms.map(({ name }) => name)
  return table(
    `Told to wait ${wait} s by one form alone`,
    [NAME, 8, ...names.map(name => name.length)],
    [
      ['client', 'version', ...names],
      ...clients.map(({ name, version }, i) => [name, version, ...sights[i]!.map(verdict)])
    ]
  )
}

/** When each client was back after each wait that it was told in all ways that go together. */
export function shortTable(
  waits: readonly number[],
  clients: readonly Installed[],
  sights: readonly (readonly Sight[])[]
): string {
  const title = 'Told by Retry-After, draft-11 and the form beside: back after so many seconds'
  return table(
    title,
    [NAME, 8, ...waits.map(() => 6), 10, 8],
    [
      ['client', 'beside', ...waits.map(wait => `${wait} s`), 'refusals', 'served'],
      ...clients.map(({ name, legacy }, i) => [name, formOf(legacy), ...shortCells(sights[i]!)])
    ]
  )
}

function shortCells(sights: readonly Sight[]): Cells {
  const served = sights.filter(({ end }) => end === 'served')
  return [
    ...sights.map(({ returns }) => returns.slice(0, 1).map(seconds).join() || '-'),
    `${Math.max(...sights.map(({ refusals }) => refusals))} each`,
    `${served.length} of ${sights.length}`
  ]
}

/** When each client was back after a wait of a minute or more, and whether a hint stops it. */
export function longTable(
  wait: number,
  clients: readonly Installed[],
  sights: readonly Sight[],
  hinted: readonly Sight[]
): string {
  return table(
    `Told to wait ${wait} s: back after so many seconds`,
    [NAME, 18, 8, 10, 8],
    [
      ['client', 'back after', 'refusals', 'end', 'sdkHints', 'its own rule'],
      ...clients.map((client, i) => {
        const { returns, refusals, end } = sights[i]!
        const back = returns.map(seconds).join(', ') || '-'
        return [client.name, back, String(refusals), end, verdict(hinted[i]!), client.longWaits ?? '']
      })
    ]
  )
}

function formOf(legacy: Client['legacy']): string {
  if (legacy === false) return '-'
  return typeof legacy === 'object' ? `X-${legacy.reset}` : legacy
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1)
}

function table(title: string, widths: readonly number[], rows: readonly Cells[]): string {
  return [title, '', ...rows.map(cells => row(cells, widths))].join('\n')
}

function row(cells: Cells, widths: readonly number[]): string {
  return cells
    .map((cell, i) => cell.padEnd(widths[i] ?? 0))
    .join(' ')
    .trimEnd()
}
