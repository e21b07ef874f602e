import { scaleLinear } from 'd3-scale'
import type { ScaleLinear } from 'd3-scale'
import { area, curveStepAfter, line } from 'd3-shape'
import { NOTHING, html } from './markup.js'
import type { Markup } from './markup.js'
import type { AttackResult, AuditPromise, RequestRecord, Span } from './result.js'

const WIDTH = 960
const LEFT = 64
const RIGHT = WIDTH - 16
const TOP = 24
const FLOOR = 236
/** Where the bars of admitted and of refused requests stand, how high they are at most, and how wide. */
const ADMITTED = 280
const REFUSED = 316
const HIGHEST = 26
const BAR = 4
const AXIS = 324
const HEIGHT = 352

type Scale = ScaleLinear<number, number>

/** A number of units from a point in time on. */
type Point = readonly [seconds: number, units: number]

/**
 * One attack as a picture: how many units the window that ends at each instant has admitted, against the quota; below it each
 * request, by when it was sent. An admitted one counts halfway between its sending and its answer.
 */
export function chart(attack: AttackResult, promise: AuditPromise): Markup {
  const curve = countsOf(attack, promise.window)
  const most = Math.max(promise.quota, ...curve.map(([, units]) => units))
  const x = scaleLinear([0, lengthOf(attack, promise)], [LEFT, RIGHT])
  const y = scaleLinear([0, most * 1.08], [FLOOR, TOP])
  const label = `${attack.name}: up to ${attack.mostInAnyWindow} units in any window of ${promise.window} seconds, ${promise.quota} are promised`
  return html`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${label}">
    ${worst(attack, x)} ${axes(x, y)} ${curves(curve, x, y)} ${quotaLine(promise, y)} ${rows(attack, x)}
  </svg>`
}

/** Seconds that are shown: until the last admission has left the window. */
function lengthOf({ from, to }: AttackResult, { window }: AuditPromise): number {
  return Math.max(0.001, (to - from) / 1000 + window * 0.1)
}

/** Units in the window that ends at each instant at which their number changes. */
function countsOf(attack: AttackResult, window: number): readonly Point[] {
  const admitted = attack.requests.filter(({ outcome }) => outcome === 'admitted')
  const cost = admitted.length === 0 ? 1 : attack.admitted / admitted.length
  const changes = admitted
    .flatMap(({ sent, arrived }): Point[] => {
      const at = ((sent + arrived) / 2 - attack.from) / 1000
      return [
        [at, cost],
        [at + window, -cost]
      ]
    })
    // A window is half-open: what is a window old has left it when something else comes.
    .sort(([a, more], [b, others]) => a - b || more - others)
  let units = 0
  return [[0, 0], ...changes.map(([at, change]): Point => [at, (units += change)])]
}

function axes(x: Scale, y: Scale): Markup {
  const vertical = y
    .ticks(5)
    .map(
      units =>
        html`<g class="grid" transform="translate(0 ${round(y(units))})">
          <line x1="${LEFT}" x2="${RIGHT}" /><text x="${LEFT - 8}" dy="0.32em" class="left">${units}</text>
        </g>`
    )
  const seconds = x.tickFormat(10)
  const horizontal = x
    .ticks(10)
    .map(
      at =>
        html`<g class="tick" transform="translate(${round(x(at))} ${AXIS})">
          <line y2="5" /><text y="20">${seconds(at)} s</text>
        </g>`
    )
  return html`${vertical} ${horizontal}<line
      class="axis"
      x1="${LEFT}"
      x2="${RIGHT}"
      y1="${AXIS}"
      y2="${AXIS}"
    />`
}

function curves(points: readonly Point[], x: Scale, y: Scale): Markup {
  const end = x.domain()[1]!
  const visible = points.filter(([at]) => at <= end)
  const shown = [...visible, [end, visible.at(-1)![1]] as Point]
  const at = ([seconds]: Point): number => round(x(seconds))
  const up = ([, units]: Point): number => round(y(units))
  const filled = area<Point>(at, FLOOR, up).curve(curveStepAfter)
  const drawn = line<Point>(at, up).curve(curveStepAfter)
  return html`<path class="filled" d="${String(filled(shown))}" /><path
      class="count"
      d="${String(drawn(shown))}"
    />`
}

function quotaLine({ quota }: AuditPromise, y: Scale): Markup {
  const at = round(y(quota))
  return html`<g class="quota">
    <line x1="${LEFT}" x2="${RIGHT}" y1="${at}" y2="${at}" /><text x="${RIGHT}" y="${at - 6}"
      >promised: ${quota}</text
    >
  </g>`
}

/** The worst window, as far as its requests reach. */
function worst({ worstWindow, from }: AttackResult, x: Scale): Markup {
  if (worstWindow === null) return NOTHING
  const [start, end] = edges(worstWindow, from, x)
  return html`<rect
    class="worst"
    x="${start}"
    width="${round(Math.max(2, end - start))}"
    y="${TOP}"
    height="${AXIS - TOP}"
  />`
}

function edges({ from, to }: Span, origin: number, x: Scale): readonly [number, number] {
  return [round(x((from - origin) / 1000)), round(x((to - origin) / 1000))]
}

function rows(attack: AttackResult, x: Scale): Markup {
  const admitted = barsOf(attack, 'admitted', x)
  const refused = barsOf(attack, 'refused', x)
  const failed = barsOf(attack, 'failed', x)
  const most = Math.max(1, ...[admitted, refused, failed].flatMap(bars => [...bars.values()]))
  const path = (bars: Bars, floor: number): string =>
    [...bars].map(([at, count]) => `M${at} ${floor}v${-round(3 + ((HIGHEST - 3) * count) / most)}`).join('')
  const name = (text: string, y: number): Markup =>
    html`<text x="${LEFT - 8}" y="${y - 4}" class="left">${text}</text>`
  return html`${name('admitted', ADMITTED)} ${name('refused', REFUSED)}
    <path class="admitted" d="${path(admitted, ADMITTED)}" /><path
      class="refused"
      d="${path(refused, REFUSED)}"
    />
    <path class="failed" d="${path(failed, REFUSED)}" />`
}

/** Numbers of requests, by where they stand. */
type Bars = ReadonlyMap<number, number>

function barsOf({ requests, from }: AttackResult, outcome: RequestRecord['outcome'], x: Scale): Bars {
  const bars = new Map<number, number>()
  for (const { sent, outcome: own } of requests) {
    if (own !== outcome) continue
    const at = BAR * Math.round(x((sent - from) / 1000) / BAR)
    bars.set(at, (bars.get(at) ?? 0) + 1)
  }
  return bars
}

/** A tenth of a pixel is enough. */
const round = (pixels: number): number => Math.round(pixels * 10) / 10
