/** The problem types of draft-ietf-httpapi-ratelimit-headers-11 §5, with the titles and statuses of its §10.2. */
const PROBLEMS = {
  'quota-exceeded': { title: 'Quota Exceeded', status: 429 },
  'temporary-reduced-capacity': { title: 'Temporary Reduced Capacity', status: 503 },
  'abnormal-usage-detected': { title: 'Abnormal Usage Detected', status: 429 }
} as const

/** A client over its quota (§5.1), a server short of capacity (§5.2), a client that abuses the service (§5.3). */
export type ProblemType = keyof typeof PROBLEMS

/** Problem details (RFC 9457) as they are sent: `JSON.stringify` gives the body. */
export interface Problem {
  /** An identifier; nothing is to be found there. */
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail?: string
  /** Names of the policies that refused: JSON strings, not structured ones. */
  readonly 'violated-policies'?: readonly string[]
}

/** What a {@link Problem} is made of. */
export interface ProblemTerms {
  readonly type: ProblemType
  /** Status of the response the body is sent with. */
  readonly status: number
  readonly detail?: string | undefined
  /** Names of the advertised policies that refused. */
  readonly violatedPolicies: readonly string[]
}

/** As Fastify completes it. */
export const PROBLEM_MEDIA_TYPE = 'application/problem+json; charset=utf-8'

/**
 * The body of a refusal.
 * @throws {RangeError} when the draft does not define the type, or gives it another status: the member `status` has to
 * be the status of the response (RFC 9457 §3.1.2).
 */
export function problem({ type, status, detail, violatedPolicies }: ProblemTerms): Problem {
  if (!Object.hasOwn(PROBLEMS, type))
    throw new RangeError(`problem type "${type}" is not defined by the draft`)
  const { title, status: expected } = PROBLEMS[type]
  if (status !== expected)
    throw new RangeError(`problem "${type}" goes with status ${expected}, got ${status}`)
  return {
    type: `https://iana.org/assignments/http-problem-types#${type}`,
    title,
    status,
    ...(detail === undefined ? {} : { detail }),
    ...(violatedPolicies.length === 0 ? {} : { 'violated-policies': violatedPolicies })
  }
}

/** An advertised policy that refused. */
export interface RefusingPolicy {
  readonly name: string
  /** The most it can ever hold, in units: its `q`. */
  readonly quota: number
  readonly unit: string
  /** Milliseconds; `undefined`: the quota is for no time. */
  readonly window: number | undefined
  /** Units the refused request asked for. */
  readonly cost: number
  /** Why the quota is lower for the time being, as the operator says; `undefined`: it is not. */
  readonly reduced?: string | undefined
}

/** What {@link refusalDetail} tells. */
export interface Refusal {
  /** The advertised policies that refused; the internal ones are not named. */
  readonly policies: readonly RefusingPolicy[]
  /** The seconds of `Retry-After`; `undefined`: none is sent. */
  readonly retryAfter: number | undefined
  /** Whether no wait helps. */
  readonly never: boolean
}

/**
 * A sentence or two to act on, for the member `detail`. It says what everybody may know, the policies and the wait, and
 * nothing about the client: no key, no address, no use.
 */
export function refusalDetail({ policies, retryAfter, never }: Refusal): string {
  if (never) return hopeless(policies.find(({ cost, quota }) => cost > quota))
  const reasons =
    policies.length === 0 ? 'A limit of this service has been reached.' : policies.map(reason).join(' ')
  return `${reasons} Try again ${retryAfter === undefined ? 'later' : `in ${roughly(retryAfter)}`}.`
}

function hopeless(policy: RefusingPolicy | undefined): string {
  if (policy === undefined) return 'This service cannot accept this request: sending it again will not help.'
  const { name, quota, unit, cost } = policy
  if (quota === 0)
    return `Quota "${name}" allows ${amount(0, unit)}: sending this request again will not help.`
  const price = unit === 'requests' ? plural(cost, 'unit') : amount(cost, unit)
  return `This request costs ${price}, more than the ${quota} that quota "${name}" can ever hold: sending it again will not help.`
}

function reason({ name, quota, unit, window, cost, reduced }: RefusingPolicy): string {
  const per = window === undefined ? '' : ` per ${span(window)}`
  const state = cost > 1 ? 'has less left than this request costs' : 'is used up'
  const allows = reduced === undefined ? 'allows' : 'for now allows only'
  const because = reduced === undefined ? '' : ` (${reduced})`
  return `Quota "${name}" ${allows} ${amount(quota, unit)}${per}${because} and ${state}.`
}

function amount(count: number, unit: string): string {
  if (unit === 'requests') return plural(count, 'request')
  if (unit === 'content-bytes') return plural(count, 'byte')
  if (unit === 'concurrent-requests') return `${plural(count, 'request')} at a time`
  return count === 1 ? `1 unit of ${unit}` : `${count} ${unit}`
}

function plural(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`
}

const SPANS = [
  [86_400_000, 'day'],
  [3_600_000, 'hour'],
  [60_000, 'minute'],
  [1000, 'second']
] as const

/** A window exactly, in the longest unit that divides it: `10 seconds`, `minute`. */
function span(ms: number): string {
  const [size, noun] = SPANS.find(([each]) => ms % each === 0) ?? [1, 'millisecond']
  return ms === size ? noun : plural(ms / size, noun)
}

/** A wait in the longest unit of which it has two or more, rounded up: `90 seconds`, `2 minutes`. */
function roughly(seconds: number): string {
  const ms = seconds * 1000
  const [size, noun] = SPANS.find(([each]) => ms >= 2 * each) ?? [1000, 'second']
  return plural(Math.ceil(ms / size), noun)
}
