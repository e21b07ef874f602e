import { draw } from './chart.js'
import { read } from './choice.js'
import * as report from './report.js'
import { openTrial, run } from './trial.js'

/**
 * @typedef {import('./trial.js').Answer} Answer
 *
 * @typedef {object} Scene What is on the page. Times are milliseconds after the first request.
 * @property {number} quota
 * @property {number} window Milliseconds.
 * @property {readonly number[]} planned When requests are to be sent.
 * @property {readonly Answer[]} answers
 * @property {number} now What is later has not happened yet.
 */

const form = /** @type {HTMLFormElement} */ (document.querySelector('form'))
const button = /** @type {HTMLButtonElement} */ (document.querySelector('form button'))
const chart = /** @type {SVGSVGElement} */ (document.querySelector('svg'))

/** @type {Scene} */
let scene = { quota: 0, window: 0, planned: [], answers: [], now: 0 }

/** @type {AbortController | undefined} Ends the attack that runs. */
let running

form.addEventListener('input', prepare)
form.addEventListener('submit', event => {
  event.preventDefault()
  if (running === undefined) void begin()
  else running.abort()
})
prepare()
new ResizeObserver(() => draw(chart, scene)).observe(chart)

/** Shows what is chosen, before any request is sent. */
function prepare() {
  const { about, terms, attack } = read(form)
  report.write('about', about)
  if (running !== undefined || !form.checkValidity()) return
  clear(terms, attack)
  const { planned } = scene
  report.write('mistake', '')
  report.write('verdict', `${planned.length} requests in ${(Math.max(...planned) / 1000).toFixed(1)} s`)
}

/** Attacks what is chosen, and shows what comes of it. */
async function begin() {
  const { policy, attack, names } = read(form)
  const { signal } = (running = new AbortController())
  button.textContent = 'Stop the attack'
  report.write('mistake', '')
  try {
    const trial = await openTrial(policy, signal)
    clear(trial, attack)
    report.write('verdict', 'Attacking …')
    chart.scrollIntoView({ block: 'nearest' })
    await run(trial, attack, signal, follow(signal))
    show({ ...scene, now: Infinity })
    report.conclude(scene, names)
  } catch (error) {
    report.write('verdict', signal.aborted ? 'Stopped.' : '')
    if (!signal.aborted) report.write('mistake', /** @type {Error} */ (error).message)
  } finally {
    running.abort()
    running = undefined
    button.textContent = 'Start the attack'
  }
}

/**
 * Shows how time goes by until it ends, and the answers that it is given.
 *
 * @param {AbortSignal} end
 * @returns {(answer: Answer) => void}
 */
function follow(end) {
  let began = Infinity
  const frame = () => {
    if (end.aborted) return
    show({ ...scene, now: performance.now() - began })
    requestAnimationFrame(frame)
  }
  frame()
  return answer => {
    began = Math.min(began, performance.now() - answer.at)
    scene = { ...scene, answers: [...scene.answers, answer] }
    report.add(answer)
  }
}

/**
 * @param {import('./attacks.js').Terms} terms
 * @param {import('./attacks.js').Attack} attack
 */
function clear({ quota, window }, attack) {
  const planned = attack
    .waves({ quota, window })
    .flatMap(({ at, requests }) => Array.from({ length: requests }, () => at))
  report.clear()
  show({ quota, window, planned, answers: [], now: 0 })
}

/** @param {Scene} changed */
function show(changed) {
  scene = changed
  draw(chart, scene)
  report.count(scene)
}
