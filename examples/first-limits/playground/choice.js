import { ATTACKS } from './attacks.js'

/**
 * @typedef {object} Controls The controls of the form, by their names.
 * @property {HTMLSelectElement} algorithm
 * @property {HTMLInputElement} quota
 * @property {HTMLInputElement} seconds
 *
 * @typedef {object} Choice
 * @property {object} policy Options for the server, right or wrong.
 * @property {import('./attacks.js').Terms} terms
 * @property {import('./attacks.js').Attack} attack
 * @property {readonly string[]} names Of the algorithm and of the attack.
 * @property {string} about What the algorithm does.
 */

/**
 * What is chosen in the form.
 *
 * @param {HTMLFormElement} form
 * @returns {Choice}
 */
export function read(form) {
  const { algorithm, quota, seconds } = /** @type {Controls} */ (/** @type {unknown} */ (form.elements))
  const option = /** @type {HTMLOptionElement} */ (algorithm.selectedOptions[0])
  const { about = '', align } = option.dataset
  const radio = /** @type {HTMLInputElement} */ (form.querySelector('[name=attack]:checked'))
  return {
    policy: {
      algorithm: option.value,
      quota: number(quota),
      window: number(seconds),
      ...(align === undefined ? {} : { align: true })
    },
    terms: { quota: quota.valueAsNumber, window: 1000 * seconds.valueAsNumber },
    attack: ATTACKS[/** @type {keyof typeof ATTACKS} */ (radio.value)],
    names: [option.label, String(radio.labels?.[0]?.querySelector('strong')?.textContent)],
    about
  }
}

/**
 * Nothing where no number is: the server says what it thinks of that.
 *
 * @param {HTMLInputElement} input
 */
const number = ({ value, valueAsNumber }) => (value === '' ? undefined : valueAsNumber)
