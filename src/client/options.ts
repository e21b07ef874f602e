import { asDuration, asFunction, asInteger, asObject, asOneOf, knownKeys, refuser, show } from '../options.js'
import type { Refuse } from '../options.js'
import type { Costs } from './costs.js'
import { QuotaOptionError } from './errors.js'
import type { Bounds } from './lane.js'
import type { Manner } from './named-limits.js'
import { methodAndPath } from './outgoing.js'
import type { OutgoingRequest } from './outgoing.js'
import { realTiming } from './timing.js'
import type { Timing } from './timing.js'

/** Seconds as a positive integer, or text such as `'500ms'`, `'10s'`, `'1m'`, `'2h'`, `'1d'`. */
export type ClientDuration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd'}`

/** A request waits for quota. */
export interface WaitEvent {
  readonly request: OutgoingRequest
  /** The policies that have no room for it; empty: the server has named none. */
  readonly policies: readonly string[]
  /** When it can be sent at the earliest. */
  readonly until: Date
}

/** A request was refused. */
export interface RefusedEvent {
  readonly request: OutgoingRequest
  /** 429 or 503; 403 from servers that say so to clients over their quota. */
  readonly status: number
  /** The policies that refused; empty: the server has named none. */
  readonly policies: readonly string[]
  /** Which try was refused: 1 for the first. */
  readonly attempt: number
  /** Whether it is sent again, by the client. */
  readonly retried: boolean
  /** Until when nothing that falls under these policies is sent. */
  readonly until: Date
}

/** Several keys for one API, of which each has its own quota. */
export interface Keys {
  /** The keys; at least one. */
  readonly values: readonly string[]
  /** The header fields that a request with this key has, such as `{ authorization: 'Bearer …' }`. */
  readonly apply: (key: string, request: OutgoingRequest) => Readonly<Record<string, string>>
}

/** How a client paces itself. Nothing is required. */
export interface PacedOptions {
  /**
   * `'spend'`, the default: spends what `r` allows at once, then waits until `t` is over. `'even'`: spreads it over `t`. The
   * draft leaves the choice (§7). What others visibly spend from too is spread in any case.
   */
  readonly pacing?: 'spend' | 'even' | undefined
  /** The part of each quota that is used: more than 0 and at most 1, the default. 0.7 leaves 30 % to others. */
  readonly headroom?: number | undefined
  /** The most requests to one server that run at once: an integer, 1 or more; default: no limit but the server's. */
  readonly concurrency?: number | undefined
  /** The most requests that wait for one server: an integer, 0 or more; default 10 000. More are rejected. */
  readonly queue?: number | undefined
  /**
   * The longest wait for quota: see {@link ClientDuration}; default 2 minutes. A request whose quota has no room for it
   * sooner is rejected at once, with `retryAt`, instead of sleeping. Waiting for one's turn behind others is no such wait:
   * give a signal to end that.
   */
  readonly maxWait?: ClientDuration | undefined
  /** How often a request that was refused is sent again: an integer, 0 or more; default 5. */
  readonly retries?: number | undefined
  /**
   * The methods that may be sent again; default those that are idempotent (RFC 9110 §9.2.2): `GET`, `HEAD`, `OPTIONS`,
   * `TRACE`, `PUT`, `DELETE`. Never with a body that is a stream.
   */
  readonly retryMethods?: readonly string[] | undefined
  /** The most that is added to a wait after a refusal, as a share of it: 0 to 1; default 0.1. Never more than 10 s. */
  readonly jitter?: number | undefined
  /** What a request spends, by unit: integers of 0 or more, such as `{ tokens: 900 }`; default 1 of every unit. */
  readonly cost?: ((request: OutgoingRequest) => Costs) | undefined
  /** Requests of a higher priority go first: any number; default 0. */
  readonly priority?: ((request: OutgoingRequest) => number) | undefined
  /**
   * What requests have in common that fall under the same policies; default method and path. Until a response has told
   * which these are, all policies of the server are kept to.
   */
  readonly route?: ((request: OutgoingRequest) => string) | undefined
  /** Several keys for one API; the one that has spent the least of its quota is used. */
  readonly keys?: Keys | undefined
  /** Told when a request first waits for quota. What it throws is an uncaught error. */
  readonly onWait?: ((event: WaitEvent) => void) | undefined
  /** Told of every refusal. What it throws is an uncaught error. */
  readonly onRefused?: ((event: RefusedEvent) => void) | undefined
  /** The time and the chance to go by, for tests and simulation. */
  readonly timing?: Timing | undefined
}

/** The options of a client, read and complete. */
export interface Settings {
  readonly manner: Manner
  readonly bounds: Bounds
  readonly retries: number
  readonly retryMethods: ReadonlySet<string>
  readonly cost: (request: OutgoingRequest) => Costs
  readonly priority: (request: OutgoingRequest) => number
  readonly route: (request: OutgoingRequest) => string
  readonly keys: Keys | undefined
  readonly onWait: (event: WaitEvent) => void
  readonly onRefused: (event: RefusedEvent) => void
  readonly timing: Timing
}

const OPTIONS = [
  'pacing',
  'headroom',
  'concurrency',
  'queue',
  'maxWait',
  'retries',
  'retryMethods',
  'jitter',
  'cost',
  'priority',
  'route',
  'keys',
  'onWait',
  'onRefused',
  'timing'
] as const satisfies readonly (keyof PacedOptions)[]

/** What people bring from other clients, and the name it has here. */
const HABITS: Readonly<Record<string, string>> = {
  limit: 'retries',
  maxRetries: 'retries',
  maxRetryAfter: 'maxWait',
  maxTimeout: 'maxWait',
  timeout: 'maxWait',
  maxConcurrent: 'concurrency',
  connections: 'concurrency',
  methods: 'retryMethods',
  weight: 'cost',
  highWater: 'queue',
  queueSize: 'queue',
  onRateLimit: 'onRefused',
  onRetry: 'onRefused'
}

/** What people call keys. Nothing of what is written there is shown. */
const SECRETS = ['key', 'apiKey', 'apiKeys', 'token', 'tokens', 'secret', 'secrets', 'auth', 'authorization']

/** RFC 9110 §9.2.2. */
const IDEMPOTENT: readonly string[] = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PUT', 'DELETE']

/**
 * Reads the options of `place`, the function they were given to.
 * @throws {QuotaOptionError} with a sentence that names the option, the value and what was expected.
 */
export function readSettings(place: string, written: PacedOptions): Settings {
  const refuse = refuser(QuotaOptionError, place)
  const options: PacedOptions = asObject(refuse, 'options', written)
  refuseSecrets(refuse, options)
  knownKeys(refuse, { ...options }, OPTIONS, HABITS)
  const timing = options.timing === undefined ? realTiming : asTiming(refuse, options.timing)
  return {
    manner: {
      pacing: asOneOf(refuse, 'pacing', options.pacing ?? 'spend', ['spend', 'even']),
      headroom: asHeadroom(refuse, options.headroom ?? 1),
      jitter: asShare(refuse, 'jitter', options.jitter ?? 0.1),
      random: () => timing.random()
    },
    bounds: {
      concurrency:
        options.concurrency === undefined ? Infinity : asCount(refuse, 'concurrency', options.concurrency, 1),
      queue: asCount(refuse, 'queue', options.queue ?? 10_000, 0),
      maxWait: asDuration(refuse, 'maxWait', options.maxWait ?? '2m')
    },
    retries: asCount(refuse, 'retries', options.retries ?? 5, 0),
    retryMethods: new Set(asMethods(refuse, options.retryMethods ?? IDEMPOTENT)),
    cost: asFunction(refuse, 'cost', options.cost ?? (() => ({}))),
    priority: asFunction(refuse, 'priority', options.priority ?? (() => 0)),
    route: asFunction(refuse, 'route', options.route ?? methodAndPath),
    keys: options.keys === undefined ? undefined : asKeys(refuse, options.keys),
    onWait: asListener(refuse, 'onWait', options.onWait),
    onRefused: asListener(refuse, 'onRefused', options.onRefused),
    timing
  }
}

/** The most that counts can be. */
const MANY = 1_000_000

const asCount = (refuse: Refuse, option: string, value: unknown, least: number): number =>
  asInteger(refuse, option, value, least, MANY)

function asShare(refuse: Refuse, option: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value
  return refuse(`${option} must be a number from 0 to 1, got ${show(value)}`)
}

function asHeadroom(refuse: Refuse, value: unknown): number {
  if (typeof value === 'number' && value > 0 && value <= 1) return value
  return refuse(
    `headroom must be a number more than 0 and at most 1, the part of a quota to use, got ${show(value)}`
  )
}

function asMethods(refuse: Refuse, value: unknown): readonly string[] {
  const methods: readonly unknown[] = Array.isArray(value) ? value : [undefined]
  if (methods.every(method => typeof method === 'string' && /^[A-Z]+$/.test(method)))
    return methods as string[]
  return refuse(
    `retryMethods must be a list of methods in upper case, such as ["GET", "POST"], got ${show(value)}`
  )
}

function refuseSecrets(refuse: Refuse, options: object): void {
  const secret = SECRETS.find(name => Object.hasOwn(options, name))
  if (secret !== undefined) refuse(`unknown option "${secret}"; did you mean "keys"?`)
}

function asKeys(refuse: Refuse, value: unknown): Keys {
  if (typeof value !== 'object' || Array.isArray(value))
    refuse('keys must be an object with values and apply')
  const keys = asObject(refuse, 'keys', value)
  knownKeys(message => refuse(`keys: ${message}`), keys, ['values', 'apply'])
  const values: readonly unknown[] = Array.isArray(keys['values']) ? keys['values'] : []
  // What is wrong among keys is not shown: they are secrets.
  if (values.length === 0 || !values.every(key => typeof key === 'string' && key !== '')) {
    refuse('keys.values must be a list of one or more keys, each of them text')
  }
  if (new Set(values).size < values.length) refuse('keys.values must not name a key twice')
  return {
    values: values as readonly string[],
    apply: asFunction(refuse, 'keys.apply', keys['apply'] as Keys['apply'] | undefined)
  }
}

/** Listeners are told when everything that happens now has happened: they can disturb nothing. */
function asListener<E>(
  refuse: Refuse,
  option: string,
  value: ((event: E) => void) | undefined
): (event: E) => void {
  if (value === undefined) return () => {}
  const listener = asFunction(refuse, option, value)
  return event => queueMicrotask(() => listener(event))
}

function asTiming(refuse: Refuse, timing: Timing): Timing {
  for (const name of ['now', 'after', 'random'] as const) {
    asFunction(refuse, `timing.${name}`, (timing as Partial<Timing> | null)?.[name])
  }
  return timing
}
