/**
 * @typedef {import('./attacks.js').Attack} Attack
 *
 * @typedef {object} Trial An API with the policy that was chosen.
 * @property {string} url
 * @property {number} quota
 * @property {number} window Milliseconds.
 * @property {number} ahead How far its clock is ahead of `performance.now()`, in milliseconds.
 *
 * @typedef {object} Answer
 * @property {number} at When it was decided, on the server's clock, in milliseconds after the first one.
 * @property {200 | 429} status
 * @property {string} policy `RateLimit-Policy`; of this and the next two, empty if there is none.
 * @property {string} limit `RateLimit`
 * @property {string} wait `Retry-After`
 * @property {string} body
 */

/**
 * Asks the server for an API with a policy. Rejects with what the server says against it.
 *
 * @param {object} policy
 * @param {AbortSignal} signal
 * @returns {Promise<Trial>}
 */
export async function openTrial(policy, signal) {
  const headers = { 'content-type': 'application/json' }
  const response = await ask('/trials', { method: 'POST', headers, body: JSON.stringify(policy), signal })
  const { mistake, ...terms } = /** @type {Trial & { mistake?: string }} */ (await response.json())
  if (!response.ok) throw new Error(mistake)
  return { ...terms, ahead: await ahead(signal) }
}

/** As many as browsers open to one server. */
const CONNECTIONS = 6

/**
 * Asks for the server's clock over several connections, which are open then for the attack. What came fastest is nearest
 * to the truth.
 *
 * @param {AbortSignal} signal
 */
async function ahead(signal) {
  const differences = Array.from({ length: CONNECTIONS }, async () => {
    const response = await ask('/clock', { cache: 'no-store', signal })
    return Number(await response.text()) - performance.now()
  })
  return Math.max(...(await Promise.all(differences)))
}

/**
 * Attacks an API, and tells each answer as it arrives.
 *
 * @param {Trial} trial
 * @param {Attack} attack
 * @param {AbortSignal} signal
 * @param {(answer: Answer) => void} tell
 */
export async function run(trial, attack, signal, tell) {
  const [first, ...rest] = attack.waves(trial)
  await sleepUntil(beginning(trial, attack), signal)
  const opening = send(trial, first.requests, signal)
  // All times count from this answer on, for it is the one that opens a window.
  const { at: start } = await Promise.race(opening)
  /** @param {Promise<Answer>} answer */
  const told = async answer => {
    const { at, ...others } = await answer
    tell({ at: at - start, ...others })
  }
  const later = rest.map(async ({ at, requests }) => {
    await sleepUntil(start - trial.ahead + at, signal)
    await Promise.all(send(trial, requests, signal).map(told))
  })
  await Promise.all([...opening.map(told), ...later])
}

/**
 * Sends requests at once.
 *
 * @param {Trial} trial
 * @param {number} requests
 * @param {AbortSignal} signal
 */
function send({ url }, requests, signal) {
  return Array.from({ length: requests }, async () => answered(await ask(url, { cache: 'no-store', signal })))
}

/**
 * @param {string} url
 * @param {RequestInit} init
 */
async function ask(url, init) {
  try {
    return await fetch(url, init)
  } catch (cause) {
    throw new Error('The server does not answer.', { cause })
  }
}

/**
 * @param {Response} response
 * @returns {Promise<Answer>}
 */
async function answered(response) {
  const { status, headers } = response
  if (status !== 200 && status !== 429)
    throw new Error(`The server answers ${status} and nothing about the quota.`)
  return {
    at: Number(headers.get('x-decided-at')),
    status,
    policy: headers.get('ratelimit-policy') ?? '',
    limit: headers.get('ratelimit') ?? '',
    wait: headers.get('retry-after') ?? '',
    body: await response.text()
  }
}

/**
 * When to begin, by `performance.now()`.
 *
 * @param {Trial} trial
 * @param {Attack} attack
 */
function beginning(trial, { phase }) {
  const now = performance.now()
  if (phase === undefined) return now
  const offset = phase(trial) - trial.ahead
  return Math.ceil((now - offset) / trial.window) * trial.window + offset
}

/**
 * @param {number} time By `performance.now()`; what is past is now.
 * @param {AbortSignal} signal
 */
function sleepUntil(time, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, time - performance.now())
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(new Error('Stopped.'))
    })
  })
}
