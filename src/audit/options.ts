import { QuotaOptionError } from '../client/errors.js'
import {
  LARGEST_INTEGER,
  asBoolean,
  asDuration,
  asFunction,
  asInteger,
  asObject,
  asOneOf,
  knownKeys,
  refuser,
  show
} from '../options.js'
import type { Refuse } from '../options.js'
import { ATTACKS } from './attacks.js'
import type { Attack } from './attacks.js'
import type { AuditPlan } from './plan.js'
import type { Progress } from './progress.js'
import type { Stated } from './promise.js'
import type { AuditClock } from './virtual-world.js'

export interface AuditOptions {
  /** Units per window that are promised; default what the fields of the first answer say. An integer, 1 or more. */
  readonly quota?: number | undefined
  /** The window of the promise: seconds, or a duration like `'500ms'` or `'1m'`; default what the fields say. */
  readonly window?: number | string | undefined
  /** The announced policy to attack; default the one of the shortest window. */
  readonly policy?: string | undefined
  /** Units that a request costs; default 1. */
  readonly cost?: number | undefined
  /** Names of attacks to run, `'shifted'` and `'bypass'` for all that begin so; default all but the ways around. */
  readonly attacks?: readonly string[] | undefined
  /** Whether to try the ways around too; default false. */
  readonly bypass?: boolean | undefined
  /** Of an app: path and query to ask for; default `/`. */
  readonly path?: string | undefined
  /** Default `GET`. */
  readonly method?: string | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly body?: string | undefined
  /** Connections at the same time, at most; default 256. */
  readonly connections?: number | undefined
  /** Requests, at most; default 50 000. */
  readonly maxRequests?: number | undefined
  /** The longest it may take: seconds, or a duration; default one hour, and with `clock`, which takes none, no bound. */
  readonly maxTime?: number | string | undefined
  /** The name of the host, if it is another one than this machine: nobody may attack what is not theirs. */
  readonly ownHost?: string | undefined
  /** Of an app whose quotas count on a clock that a test moves: that clock. The audit moves it, and takes no time. */
  readonly clock?: AuditClock | undefined
  /** Calls the audit off. */
  readonly signal?: AbortSignal | undefined
  /** Told what is going on. */
  readonly onProgress?: ((progress: Progress) => void) | undefined
  /** Told what will be done, as soon as the promise is known. */
  readonly onPlan?: ((plan: AuditPlan) => void) | undefined
}

/** Options as they are used. */
export interface Settings {
  readonly stated: Stated
  readonly cost: number
  /** In the order in which they are run. */
  readonly attacks: readonly Attack[]
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  readonly path: string
  readonly connections: number
  readonly maxRequests: number
  /** Milliseconds. */
  readonly maxTime: number
  readonly ownHost: string | undefined
  readonly clock: AuditClock | undefined
  readonly signal: AbortSignal | undefined
  readonly onProgress: (progress: Progress) => void
  readonly onPlan: (plan: AuditPlan) => void
}

const KNOWN = [
  'quota',
  'window',
  'policy',
  'cost',
  'attacks',
  'bypass',
  'path',
  'method',
  'headers',
  'body',
  'connections',
  'maxRequests',
  'maxTime',
  'ownHost',
  'clock',
  'signal',
  'onProgress',
  'onPlan'
]

const HOUR = 3_600_000
const USER_AGENT = 'fastify-quota-audit'

/** Refuses as the library does, with an error. */
export const refuse: Refuse = refuser(QuotaOptionError, 'audit')

/**
 * @param spell how the user writes an option.
 * @throws by `refuse`, with a sentence that names the option, its value and what was expected.
 */
export function readSettings(
  refuse: Refuse,
  options: AuditOptions,
  spell: (option: string) => string = option => option
): Settings {
  const given = asObject(refuse, 'the options', options)
  knownKeys(refuse, given, KNOWN)
  const integer = (option: keyof AuditOptions, fallback: number): number =>
    given[option] === undefined
      ? fallback
      : asInteger(refuse, spell(option), given[option], 1, LARGEST_INTEGER)
  const { quota, window, body, clock, signal } = options
  return {
    stated: {
      quota: quota === undefined ? undefined : integer('quota', 1),
      window: window === undefined ? undefined : asDuration(refuse, spell('window'), window),
      policy: text(refuse, spell('policy'), options.policy)
    },
    cost: integer('cost', 1),
    attacks: readAttacks(refuse, options, spell),
    method: readMethod(refuse, spell('method'), options.method),
    headers: withDefaults(readHeaders(refuse, spell('headers'), options.headers), body),
    body: text(refuse, spell('body'), body),
    path: readPath(refuse, spell('path'), options.path),
    connections: integer('connections', 256),
    maxRequests: integer('maxRequests', 50_000),
    maxTime: readMaxTime(refuse, spell('maxTime'), options),
    ownHost: text(refuse, spell('ownHost'), options.ownHost),
    clock: readClock(refuse, spell('clock'), clock),
    signal,
    onProgress: readListener(refuse, spell('onProgress'), options.onProgress),
    onPlan: readListener(refuse, spell('onPlan'), options.onPlan)
  }
}

/** Milliseconds. On a clock that is moved hours are nobody's time. */
function readMaxTime(refuse: Refuse, option: string, { maxTime, clock }: AuditOptions): number {
  if (maxTime !== undefined) return asDuration(refuse, option, maxTime)
  return clock === undefined ? HOUR : Infinity
}

function readAttacks(refuse: Refuse, options: AuditOptions, spell: (option: string) => string): Attack[] {
  const bypass = asBoolean(refuse, spell('bypass'), options.bypass ?? false)
  const names = ATTACKS.map(({ name }) => name)
  const chosen = options.attacks?.map(name => asOneOf(refuse, spell('attacks'), name, [...names, ...GROUPS]))
  if (chosen?.length === 0) refuse(`${spell('attacks')} must name at least one attack`)
  return ATTACKS.filter(attack => {
    const asked = chosen?.some(name => name === attack.name || attack.name.startsWith(`${name}-`))
    return attack.bypass === true ? bypass || asked === true : (asked ?? true)
  })
}

const GROUPS = ['shifted', 'bypass']

/** What RFC 9110 §5.6.2 calls a token. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

function readMethod(refuse: Refuse, option: string, method: unknown = 'GET'): string {
  const name = text(refuse, option, method)!.toUpperCase()
  if (!TOKEN.test(name) || name === 'CONNECT')
    refuse(`${option} must be a method of HTTP, got ${show(method)}`)
  return name
}

function readHeaders(refuse: Refuse, option: string, headers: unknown = {}): Record<string, string> {
  const entries = Object.entries(asObject(refuse, option, headers)).map(([name, value]): [string, string] => {
    if (!TOKEN.test(name)) refuse(`${option} must have names of header fields, got ${show(name)}`)
    // The value may be a secret, so the message does not show it.
    if (typeof value !== 'string' || !/^[\t -~\u0080-\u00ff]*$/.test(value)) {
      return refuse(`${option} must have text of one line for ${show(name)}`)
    }
    return [name.toLowerCase(), value]
  })
  return Object.fromEntries(entries)
}

function withDefaults(headers: Record<string, string>, body: string | undefined): Record<string, string> {
  const type = body !== undefined && isJson(body) ? { 'content-type': 'application/json' } : {}
  return { 'user-agent': USER_AGENT, accept: '*/*', ...type, ...headers }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function readPath(refuse: Refuse, option: string, path: unknown = '/'): string {
  const given = text(refuse, option, path)!
  return /^\/[!-~]*$/.test(given)
    ? given
    : refuse(`${option} must be a path that starts with /, got ${show(path)}`)
}

function readClock(refuse: Refuse, option: string, clock: AuditClock | undefined): AuditClock | undefined {
  if (clock === undefined || (typeof clock === 'object' && Number.isFinite(clock?.now))) return clock
  return refuse(`${option} must be an object whose now is a number of milliseconds, got ${show(clock)}`)
}

function readListener<T>(
  refuse: Refuse,
  option: string,
  listener: ((value: T) => void) | undefined
): (value: T) => void {
  return listener === undefined ? () => undefined : asFunction(refuse, option, listener)
}

function text(refuse: Refuse, option: string, value: unknown): string | undefined {
  if (value === undefined || typeof value === 'string') return value
  return refuse(`${option} must be text, got ${show(value)}`)
}
