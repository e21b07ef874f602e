import { countInWindow, highest } from './count.js'

/**
 * @typedef {import('./page.js').Scene} Scene
 * @typedef {import('./trial.js').Answer} Answer
 */

/**
 * @param {string} id
 * @param {string | number} text
 */
export function write(id, text) {
  byId(id).textContent = String(text)
}

/** Takes everything off the page that is about one attack. */
export function clear() {
  byId('answers').replaceChildren()
  write('policy', '–')
  write('problem', '–')
  write('verdict', '')
  byId('verdict').className = ''
}

/**
 * Tells how many requests there were, and how many were admitted in the window that admitted the most.
 *
 * @param {Scene} scene
 */
export function count(scene) {
  const numbers = figures(scene)
  for (const [id, number] of Object.entries(numbers)) write(id, number)
  byId('most').className = outcome(numbers.most, scene)
}

/**
 * Adds an answer to the list of them.
 *
 * @param {Answer} answer
 */
export function add({ at, status, policy, limit, wait, body }) {
  const list = byId('answers')
  const box = /** @type {Element} */ (list.closest('.scroll'))
  list.append(
    row(status === 200 ? 'served' : 'refused', [`${(at / 1000).toFixed(3)} s`, status, limit, wait])
  )
  box.scrollTop = box.scrollHeight
  write('policy', policy)
  if (status === 429) write('problem', JSON.stringify(JSON.parse(body), null, 2))
}

/**
 * Says whether the promise was kept, and lists the attack with the ones before it.
 *
 * @param {Scene} scene
 * @param {readonly string[]} names Of the algorithm and of the attack.
 */
export function conclude(scene, names) {
  const { quota, window } = scene
  const { sent, admitted, most } = figures(scene)
  const seconds = `${window / 1000} s`
  const excess = `${(most / quota).toFixed(2)} ×`
  const verdict = {
    kept: `Kept: no more than ${most} admitted in any ${seconds}. The quota is ${quota}.`,
    broken: `Broken: ${most} admitted within ${seconds}, ${excess} the quota of ${quota}.`
  }
  const came = outcome(most, scene)
  write('verdict', verdict[came])
  byId('verdict').className = came
  byId('results').prepend(row(came, [...names, `${quota} in ${seconds}`, sent, admitted, most, excess]))
  byId('comparison').hidden = false
}

/**
 * @param {number} most
 * @param {Scene} scene
 */
const outcome = (most, { quota }) => (most > quota ? 'broken' : 'kept')

/** @param {Scene} scene */
function figures({ window, answers }) {
  const admitted = answers.filter(({ status }) => status === 200).map(({ at }) => at)
  return {
    sent: answers.length,
    admitted: admitted.length,
    refused: answers.length - admitted.length,
    most: highest(countInWindow(admitted, window)).count
  }
}

/**
 * @param {string} kind
 * @param {readonly (string | number)[]} cells
 */
function row(kind, cells) {
  const row = document.createElement('tr')
  row.className = kind
  row.append(
    ...cells.map(text => {
      const cell = document.createElement('td')
      cell.textContent = String(text)
      return cell
    })
  )
  return row
}

/** @param {string} id */
const byId = id => /** @type {HTMLElement} */ (document.getElementById(id))
