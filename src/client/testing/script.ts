import { serializeLimits, serializePolicies } from '../../fields.js'
import type { LimitItem, PolicyItem } from '../../fields.js'
import { asInteger, asObject, asOneOf, knownKeys, refuser } from '../../options.js'
import type { Refuse } from '../../options.js'
import { PROBLEM_MEDIA_TYPE, problem } from '../../problem.js'
import type { ProblemType } from '../../problem.js'
import { QuotaOptionError } from '../errors.js'

/** How a request is answered. */
export const ANSWERS = [
  'served',
  'requests',
  'tokens',
  'concurrency',
  'unavailable',
  'no-header',
  'wrong-header',
  'early'
] as const

/**
 * - `served`: 200.
 * - `requests`: 429, for a policy in requests.
 * - `tokens`: 429, for a policy in tokens, of which fewer are left than the request costs.
 * - `concurrency`: 429, for a policy in concurrent requests; nobody knows how long.
 * - `unavailable`: 503, short of capacity.
 * - `no-header`: 429, and not a word more.
 * - `wrong-header`: 429, with fields that are malformed and so must be ignored.
 * - `early`: 429, with a `Retry-After` that is over before the refusal is: see {@link Answer.lasts}.
 */
export type AnswerName = (typeof ANSWERS)[number]

/** One answer of a script, in full. */
export interface Answer {
  readonly answer: AnswerName
  /** How many requests are answered so: an integer, 1 or more; default 1. */
  readonly times?: number | undefined
  /** Seconds in `Retry-After`, and in `t`: an integer, 1 or more; default 1. `concurrency` and the wrong ones have none. */
  readonly retryAfter?: number | undefined
  /** Units left, `r`: an integer, 0 or more; default 0. */
  readonly available?: number | undefined
  /** Of `early`: seconds for which every request is refused, from the first one on; default 3. */
  readonly lasts?: number | undefined
  /** Further header fields, which replace those of the answer. */
  readonly fields?: Readonly<Record<string, string>> | undefined
}

/** An answer as it is sent. */
export interface Sent {
  readonly answer: AnswerName
  readonly status: number
  readonly fields: Readonly<Record<string, string>>
  readonly body: string
  /** Milliseconds that the client is asked to wait; 0: it is not asked to. */
  readonly wait: number
}

interface Line {
  readonly answer: AnswerName
  readonly retryAfter: number
  readonly available: number
  readonly lasts: number
  readonly fields: Readonly<Record<string, string>>
}

/** What a server answers to one request after the other: its script, and `served` when that is over. */
export class Script {
  readonly #lines: Line[]
  #earlyUntil: number | undefined

  /** @throws {QuotaOptionError} when an answer is not what it has to be. */
  constructor(answers: readonly (AnswerName | Answer)[]) {
    const refuse = refuser(QuotaOptionError, 'mockServer')
    if (!Array.isArray(answers)) refuse('the script must be a list of answers')
    this.#lines = answers.flatMap((answer, index) => readAnswer(refuse, `answer ${index + 1}`, answer))
  }

  /** The next answer; `now` in milliseconds. */
  next(now: number): Sent {
    const [line] = this.#lines
    if (line === undefined) return sent(SERVED)
    if (line.answer !== 'early') {
      this.#lines.shift()
      return sent(line)
    }
    this.#earlyUntil ??= now + line.lasts * 1000
    if (now < this.#earlyUntil) return sent(line)
    this.#earlyUntil = undefined
    this.#lines.shift()
    return this.next(now)
  }
}

const DEFAULTS = { times: 1, retryAfter: 1, available: 0, lasts: 3, fields: {} } as const
const SERVED: Line = { ...DEFAULTS, answer: 'served' }
const MANY = 1_000_000

function readAnswer(refuse: Refuse, place: string, written: unknown): Line[] {
  const options = typeof written === 'string' ? { answer: written } : asObject(refuse, place, written)
  knownKeys(message => refuse(`${place}: ${message}`), options, ['answer', ...Object.keys(DEFAULTS)])
  const count = (name: keyof typeof DEFAULTS, least: number): number =>
    asInteger(refuse, `${place}: ${name}`, (options as Partial<Answer>)[name] ?? DEFAULTS[name], least, MANY)
  const line: Line = {
    answer: asOneOf(refuse, `${place}: answer`, options['answer'], ANSWERS),
    retryAfter: count('retryAfter', 1),
    available: count('available', 0),
    lasts: count('lasts', 1),
    fields: asObject(refuse, `${place}: fields`, (options as Partial<Answer>).fields ?? {}) as Line['fields']
  }
  return Array.from({ length: count('times', 1) }, () => line)
}

function sent(line: Line): Sent {
  const { status, fields, body, wait } = WORDINGS[line.answer](line)
  return { answer: line.answer, status, fields: { ...fields, ...line.fields }, body, wait }
}

type Wording = Omit<Sent, 'answer'>

const WORDINGS: Readonly<Record<AnswerName, (line: Line) => Wording>> = {
  served: () => ({ status: 200, fields: TEXT, body: 'served', wait: 0 }),
  requests: line => refusal(line, { name: 'requests', quota: 10, window: 10 }),
  tokens: line => refusal(line, { name: 'tokens', quota: 1000, unit: 'tokens', window: 60 }),
  concurrency: ({ available }) => {
    const policy = { name: 'concurrency', quota: 1, unit: 'concurrent-requests' }
    return told(429, policy, { name: policy.name, available }, 0)
  },
  unavailable: ({ retryAfter }) => ({
    status: 503,
    fields: { 'content-type': PROBLEM_MEDIA_TYPE, 'retry-after': String(retryAfter) },
    body: document('temporary-reduced-capacity', 503, []),
    wait: retryAfter * 1000
  }),
  'no-header': () => ({ status: 429, fields: TEXT, body: 'Too Many Requests', wait: 0 }),
  'wrong-header': () => ({ status: 429, fields: WRONG, body: 'Too Many Requests', wait: 0 }),
  early: line => refusal(line, { name: 'requests', quota: 10, window: 10 })
}

const TEXT = { 'content-type': 'text/plain' } as const

/** A Token for a name, a Decimal for a number, and a wait in words. */
const WRONG = {
  ...TEXT,
  ratelimit: 'requests;r=0;t=1',
  'ratelimit-policy': '"requests";q=10.0;w=10',
  'retry-after': 'soon'
} as const

function refusal({ retryAfter, available }: Line, policy: PolicyItem): Wording {
  return told(429, policy, { name: policy.name, available, effectiveWindow: retryAfter }, retryAfter)
}

function told(status: number, policy: PolicyItem, limit: LimitItem, retryAfter: number): Wording {
  return {
    status,
    fields: {
      'content-type': PROBLEM_MEDIA_TYPE,
      'ratelimit-policy': serializePolicies([policy]),
      ratelimit: serializeLimits([limit]),
      ...(retryAfter === 0 ? {} : { 'retry-after': String(retryAfter) })
    },
    body: document('quota-exceeded', status, [policy.name]),
    wait: retryAfter * 1000
  }
}

const document = (type: ProblemType, status: number, violatedPolicies: readonly string[]): string =>
  JSON.stringify(problem({ type, status, violatedPolicies }))
