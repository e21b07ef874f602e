import { countInWindow, highest } from './count.js'

/**
 * @typedef {import('./page.js').Scene} Scene
 * @typedef {ReturnType<typeof layout>} Layout Where things are, in pixels.
 */

const SVG = 'http://www.w3.org/2000/svg'

/** Around the curve; below it are the requests and the time. */
const MARGIN = { left: 34, right: 10, top: 30, bottom: 118 }

/** Bars stand for requests. */
const BAR = { width: 4, step: 5, length: 36, unit: 8 }

/**
 * Draws how many requests were admitted in the window that ends at each moment, and below that the requests themselves.
 *
 * @param {SVGSVGElement} svg
 * @param {Scene} scene
 */
export function draw(svg, scene) {
  const { clientWidth: width, clientHeight: height } = svg
  if (width === 0) return
  const place = layout(scene, width, height)
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`)
  svg.replaceChildren(
    ...worst(place, scene),
    ...axes(place, scene),
    ...curve(place, scene),
    ...bars(place, scene)
  )
}

/**
 * @param {Scene} scene
 * @param {number} width
 * @param {number} height
 */
function layout({ quota, window, planned, answers, now }, width, height) {
  const end = Math.max(...planned, ...answers.map(({ at }) => at)) + 0.2 * window
  const passed = Math.max(0, Math.min(now, end))
  const admitted = times(answers, 200)
  const steps = countInWindow(admitted, window).filter(({ at }) => at <= passed)
  const peak = highest(steps)
  const bottom = height - MARGIN.bottom
  const right = width - MARGIN.right
  return {
    passed,
    steps,
    peak,
    right,
    bottom,
    /** Admitted requests stand on this line, refused ones hang from it. */
    ground: bottom + 20 + BAR.length,
    end,
    x: scale(end, MARGIN.left, right),
    y: scale(1.05 * Math.max(2 * quota, peak.count), bottom, MARGIN.top)
  }
}

/**
 * From values between 0 and a highest one to pixels.
 *
 * @param {number} most
 * @param {number} from
 * @param {number} to
 * @returns {(value: number) => number}
 */
const scale = (most, from, to) => value => from + (value / most) * (to - from)

/**
 * The window that admitted the most, if that was more than the quota.
 *
 * @param {Layout} place
 * @param {Scene} scene
 */
function worst({ peak, bottom, x, y }, { quota, window }) {
  if (peak.count <= quota) return []
  const left = x(Math.max(0, peak.at - window))
  const right = x(peak.at)
  return [
    shape('rect', {
      class: 'worst',
      x: left,
      y: y(peak.count),
      width: right - left,
      height: bottom - y(peak.count)
    }),
    label('worst', right, y(peak.count) - 9, 'end', `${peak.count} within ${window / 1000} s`)
  ]
}

/**
 * @param {Layout} place
 * @param {Scene} scene
 */
function axes({ end, right, bottom, ground, x, y }, { quota, window }) {
  const halves = Array.from({ length: Math.floor((2 * end) / window) + 1 }, (_, i) => (i * window) / 2)
  const low = ground + BAR.length
  return [
    ...halves.flatMap(time => [
      shape('line', { class: 'grid', x1: x(time), x2: x(time), y1: MARGIN.top, y2: low }),
      label('tick', x(time), low + 18, time === 0 ? 'start' : 'middle', `${time / 1000} s`)
    ]),
    ...[0, 2 * quota].map(count => label('tick', MARGIN.left - 8, y(count) + 4, 'end', String(count))),
    shape('line', { class: 'axis', x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }),
    label('quota', MARGIN.left - 8, y(quota) + 4, 'end', String(quota)),
    shape('line', { class: 'quota', x1: MARGIN.left, x2: right, y1: y(quota), y2: y(quota) })
  ]
}

/**
 * @param {Layout} place
 * @param {Scene} scene
 */
function curve({ passed, steps, right, bottom, x, y }, { quota }) {
  const line = `M${x(0)},${y(0)}${steps.map(({ at, count }) => `H${x(at)}V${y(count)}`).join('')}H${x(passed)}`
  const area = `${line}V${bottom}Z`
  const above = shape('rect', { x: 0, y: 0, width: right, height: y(quota) })
  return [
    shape('clipPath', { id: 'above' }, above),
    shape('path', { class: 'area', d: area }),
    shape('path', { class: 'area over', d: area, 'clip-path': 'url(#above)' }),
    shape('path', { class: 'line', d: line })
  ]
}

/**
 * @param {Layout} place
 * @param {Scene} scene
 */
function bars({ right, ground, x }, { planned, answers }) {
  const plan = piles(planned, x)
  const admitted = piles(times(answers, 200), x)
  const refused = piles(times(answers, 429), x)
  const highestPile = Math.max(...plan.values(), ...admitted.values(), ...refused.values())
  const unit = Math.min(BAR.unit, BAR.length / highestPile)
  return [
    ...[...plan].map(([at, count]) => bar('planned', at, ground - count * unit, count * unit)),
    ...[...admitted].map(([at, count]) => bar('admitted', at, ground - count * unit, count * unit)),
    ...[...refused].map(([at, count]) => bar('refused', at, ground, count * unit)),
    shape('line', { class: 'axis', x1: MARGIN.left, x2: right, y1: ground, y2: ground })
  ]
}

/**
 * @param {string} kind
 * @param {number} x
 * @param {number} y
 * @param {number} height
 */
const bar = (kind, x, y, height) => shape('rect', { class: kind, x, y, width: BAR.width, height })

/**
 * How many times fall on the same place.
 *
 * @param {readonly number[]} times
 * @param {(time: number) => number} x
 */
function piles(times, x) {
  /** @type {Map<number, number>} */
  const piles = new Map()
  for (const time of times) {
    const at = Math.round(x(time) / BAR.step) * BAR.step
    piles.set(at, (piles.get(at) ?? 0) + 1)
  }
  return piles
}

/**
 * @param {Scene['answers']} answers
 * @param {number} wanted
 */
const times = (answers, wanted) => answers.filter(({ status }) => status === wanted).map(({ at }) => at)

/**
 * @param {string} name
 * @param {Readonly<Record<string, string | number>>} attributes
 * @param {(Node | string)[]} children
 */
function shape(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name)
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value))
  element.append(...children)
  return element
}

/**
 * @param {string} kind
 * @param {number} x
 * @param {number} y
 * @param {'start' | 'middle' | 'end'} anchor
 * @param {string} text
 */
function label(kind, x, y, anchor, text) {
  return shape('text', { class: kind, x, y, 'text-anchor': anchor }, text)
}
