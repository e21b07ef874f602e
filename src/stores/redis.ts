import { channel } from 'node:diagnostics_channel'
import type { Receipt } from '../algorithm.js'
import { FST_QUOTA_OPTION } from '../errors.js'
import type { Later } from '../later.js'
import {
  asDuration,
  asInteger,
  asObject,
  asOneOf,
  knownKeys,
  outline,
  refuser,
  show,
  showDuration
} from '../options.js'
import type { Refuse } from '../options.js'
import type { Duration } from '../policy-options.js'
import type { QuotaPolicy } from '../policy.js'
import { CALL_CHANNEL, STORE_CHANNEL } from '../store.js'
import type {
  Answer,
  Charge,
  Lease,
  MemoryUse,
  Place,
  Settlement,
  Store,
  StoreCall,
  StoreChange
} from '../store.js'
import { Batches } from './batches.js'
import { FailureModes } from './failure-modes.js'
import type { FailureMode } from './failure-modes.js'
import { GuardedCalls } from './redis/calls.js'
import type { Asked } from './redis/calls.js'
import { Keys } from './redis/keys.js'
import { isCluster } from './redis/client.js'
import type { RedisClient } from './redis/client.js'
import { RedisCounter } from './redis/counter.js'
import { Plans } from './redis/plans.js'
import { ScriptClient } from './redis/script-client.js'
import { realTiming } from './guard/timing.js'

export interface RedisStoreOptions {
  /**
   * What is answered when Redis does not, for policies that do not say themselves (`onStoreFailure`): `'open'` lets requests
   * pass, `'closed'` refuses them with 503, `'local'` counts them in this process, with `quota / instances`. Required.
   */
  readonly onFailure: FailureMode
  /**
   * Under which partitions are named in Redis: 32 bytes or more, the same on all instances. Required; `undefined`, as of an
   * environment that lacks it, is refused when the app starts.
   */
  readonly secret: string | Uint8Array | undefined
  /** What all keys begin with, 1 to 32 of `A-Z a-z 0-9 . _ -`; default `'q1'`. */
  readonly prefix?: string | undefined
  /** Processes that share the quota; each counts with its part while Redis does not answer. Default 1. */
  readonly instances?: number | undefined
  /** The most a decision waits for Redis, 1 ms to 10 s; default `'50ms'`. */
  readonly deadline?: Duration | undefined
  /** A connection of the store's own to the same server, the default, or the client itself. */
  readonly connection?: 'dedicated' | 'shared' | undefined
  /** Whose clock counts: `'server'`, the default, or `'caller'`, for servers whose scripts may not ask the time. */
  readonly time?: 'server' | 'caller' | undefined
  /**
   * How partitions lie on a cluster. `'by-partition'`, the default there: each in a slot of its own, so all nodes share the
   * work, and a decision over several partitions is made one after the other. `'one-slot'`: all in one, decided at once.
   */
  readonly cluster?: 'by-partition' | 'one-slot' | undefined
}

const OPTIONS = [
  'onFailure',
  'secret',
  'prefix',
  'instances',
  'deadline',
  'connection',
  'time',
  'cluster'
] as const satisfies readonly (keyof RedisStoreOptions)[]

const HABITS: Readonly<Record<string, string>> = {
  onStoreFailure: 'onFailure',
  skipOnError: 'onFailure',
  failureMode: 'onFailure',
  timeout: 'deadline',
  keyPrefix: 'prefix',
  nameSpace: 'prefix',
  namespace: 'prefix',
  salt: 'secret',
  nodes: 'instances',
  processes: 'instances'
}

/** What a client has to have. */
const METHODS = [
  'defineCommand',
  'duplicate',
  'connect',
  'disconnect',
  'info',
  'on',
  'off'
] as const satisfies readonly (keyof RedisClient)[]

const SHORTEST_SECRET = 32
const LONGEST_DEADLINE = 10_000

/** Above this, an exact log has to be asked for: Redis reads and writes all of it for each decision. */
const LARGEST_LOG = 100

/** Key counts that a new connection gets to know, so that no request has to bring the script along. */
const MOST_WARMED = 8

/**
 * Counts in Redis, for many processes together: `client` is that of `@fastify/redis`, of ioredis or of iovalkey, for one
 * server, Sentinel or Cluster. A decision is one round trip, on a cluster one for each of its partitions.
 * @throws FST_QUOTA_OPTION for a wrong option, and for what is no client.
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions): RedisStore {
  const refuse = refuser(FST_QUOTA_OPTION, 'redisStore')
  checkClient(refuse, client)
  return new RedisStore(client, readOptions(refuse, options, client))
}

interface Settings {
  readonly onFailure: FailureMode
  readonly secret: string | Uint8Array
  readonly prefix: string
  readonly instances: number
  /** Milliseconds. */
  readonly deadline: number
  readonly connection: 'dedicated' | 'shared'
  readonly time: 'server' | 'caller'
  readonly cluster: 'by-partition' | 'one-slot' | undefined
}

/** A {@link Store} in Redis. */
export class RedisStore implements Store {
  readonly name: string = 'redis'
  readonly #client: ScriptClient
  readonly #calls: GuardedCalls
  readonly #counter: RedisCounter
  readonly #keys: Keys
  readonly #answers: FailureModes
  readonly #changes = channel(STORE_CHANNEL)
  readonly #asked = channel(CALL_CHANNEL)
  readonly #greeting: string
  #clock: () => number = Date.now
  #users = 0
  #opening: Promise<void> | undefined

  /** Use {@link redisStore}, which checks its options. */
  constructor(client: RedisClient, settings: Settings) {
    const { onFailure, secret, prefix, instances, deadline, connection, time, cluster } = settings
    const keys = new Keys(secret, prefix, cluster === 'one-slot')
    this.#keys = keys
    this.#greeting = keys.of('')
    this.#client = new ScriptClient(client, connection, realTiming)
    const clock = time === 'caller' ? (): number => this.#clock() : undefined
    const told = (state: StoreChange['state'], code: string, node: string | undefined): void => {
      if (state === 'up') this.#answers.repay()
      this.#tell({ store: this, state, code, node })
    }
    const asked: Asked = (operation, code, took) => {
      if (!this.#asked.hasSubscribers) return
      this.#asked.publish({ store: this, operation, code, took } satisfies StoreCall)
    }
    this.#calls = new GuardedCalls(this.#client, deadline, clock, told, realTiming, asked)
    const plans = bundles(client, connection) ? undefined : new Plans(time)
    this.#counter = new RedisCounter(this.#calls, keys, cluster === 'by-partition', plans)
    this.#answers = new FailureModes(new Batches(this.#counter, instances, realTiming), onFailure, instances)
  }

  /** Counts by another clock from now on, with `time: 'caller'` only: milliseconds of the epoch, integers. */
  useClock(clock: () => number): void {
    this.#clock = clock
  }

  /** Whether Redis, or a node of its cluster, does not answer, so that it is left alone. */
  get down(): boolean {
    return this.#calls.leaveAlone
  }

  /** What this process counts itself while Redis does not answer. */
  get use(): MemoryUse {
    return this.#answers.use
  }

  /** Connects, and resolves when that has worked out, has failed or takes too long: an app starts without Redis, too. */
  open(): Promise<void> {
    this.#users++
    this.#opening ??= this.#start()
    return this.#opening
  }

  expect(policy: QuotaPolicy): string | undefined {
    const { exact, largeLog, quota, quotaOf } = policy
    this.#counter.expect(policy)
    if (!exact || largeLog || (quotaOf === undefined && quota <= LARGEST_LOG)) return undefined
    const got = quotaOf === undefined ? quota : 'a function'
    return `quota must be at most ${LARGEST_LOG} for an exact log in Redis, which reads and writes all of it for each decision, unless largeLog is true, got ${got}`
  }

  label(text: string): Uint8Array {
    return this.#keys.label(text)
  }

  consume(charges: readonly Charge[]): Later<Answer> {
    return this.#answers.consume(charges)
  }

  settle(settlements: readonly Settlement[]): Later<Answer> {
    return this.#answers.settle(settlements)
  }

  renew(leases: readonly Lease[]): Later<readonly (readonly Receipt[])[]> {
    return this.#answers.renew(leases)
  }

  peek(places: readonly Place[]): Later<Answer> {
    return this.#answers.peek(places)
  }

  reset(places: readonly Place[]): Later<void> {
    return this.#answers.reset(places)
  }

  close(): void {
    this.#users = Math.max(0, this.#users - 1)
    if (this.#users > 0 || this.#opening === undefined) return
    this.#opening = undefined
    this.#answers.close()
    this.#calls.close()
    this.#client.close()
  }

  async #start(): Promise<void> {
    this.#answers.open()
    const open = await this.#client.open(() => this.#greet())
    if (open && !this.#client.ready) await this.#calls.greet([this.#greeting])
  }

  /** On each new connection: brings the script along, learns the time there, and finds out who is well again. */
  async #greet(): Promise<void> {
    const counts = Math.min(Math.max(1, this.#counter.policies), MOST_WARMED)
    for (let count = 1; count <= counts; count++) {
      await this.#calls.greet(Array.from({ length: count }, () => this.#greeting))
    }
    this.#calls.hasten()
  }

  #tell(change: StoreChange): void {
    if (this.#changes.hasSubscribers) this.#changes.publish(change)
  }
}

/** Whether a client bundles commands: it cannot be told of a new one at any time. */
function bundles({ options }: Partial<RedisClient>, connection: 'dedicated' | 'shared'): boolean {
  const { enableAutoPipelining } = (options ?? {}) as { readonly enableAutoPipelining?: unknown }
  return connection === 'shared' && enableAutoPipelining === true
}

function checkClient(refuse: Refuse, client: unknown): void {
  const rule = 'the first argument must be a client of ioredis, such as app.redis, got'
  if (client === undefined) refuse(`${rule} undefined: register @fastify/redis first, with await`)
  if (typeof client !== 'object' || client === null) refuse(`${rule} ${show(client)}`)
  const missing = missingIn(client)
  if (missing.length > 0) {
    const namespace = Object.keys(client).find(
      name => missingIn((client as Record<string, unknown>)[name]).length === 0
    )
    const hint = namespace === undefined ? '' : `; it has one called ${show(namespace)}`
    refuse(`${rule} ${outline(client)} without ${missing.join(', ')}${hint}`)
  }
  const { keyPrefix } = ((client as Partial<RedisClient>).options ?? {}) as { readonly keyPrefix?: unknown }
  if (typeof keyPrefix === 'string' && /[{}]/.test(keyPrefix)) {
    refuse(
      `the client's keyPrefix must not contain braces, which put all keys into one slot of a cluster, got ${show(keyPrefix)}`
    )
  }
}

/** What is missing for it to be a client. */
const missingIn = (client: unknown): readonly string[] =>
  METHODS.filter(name => typeof (client as Record<string, unknown> | undefined)?.[name] !== 'function')

function readOptions(refuse: Refuse, written: unknown, client: RedisClient): Settings {
  if (written === undefined) refuse('options must be an object, with onFailure and secret, got undefined')
  const options = asObject(refuse, 'options', unspoken(written))
  const spoken = Object.entries(options).map(([option, value]) => [option, unspoken(value)])
  knownKeys(refuse, Object.fromEntries(spoken) as Record<string, unknown>, OPTIONS, HABITS)
  const {
    prefix = 'q1',
    instances = 1,
    deadline = '50ms',
    connection = 'dedicated',
    time = 'server',
    cluster
  } = options
  if (options['onFailure'] === undefined) {
    refuse("onFailure is required: 'open', 'closed' or 'local', what is answered when Redis does not")
  }
  return {
    onFailure: asOneOf(refuse, 'onFailure', options['onFailure'], ['open', 'closed', 'local'] as const),
    secret: readSecret(refuse, options['secret']),
    prefix: readPrefix(refuse, prefix),
    instances: asInteger(refuse, 'instances', instances, 1, 1_000_000),
    deadline: readDeadline(refuse, deadline),
    connection: asOneOf(refuse, 'connection', connection, ['dedicated', 'shared'] as const),
    time: asOneOf(refuse, 'time', time, ['server', 'caller'] as const),
    cluster:
      cluster === undefined
        ? isCluster(client)
          ? 'by-partition'
          : undefined
        : asOneOf(refuse, 'cluster', cluster, ['by-partition', 'one-slot'] as const)
  }
}

/** What is long enough to be the secret is not shown, whatever it is called. */
function unspoken(value: unknown): unknown {
  const isSecret = typeof value === 'string' && Buffer.byteLength(value) >= SHORTEST_SECRET
  return isSecret ? `a string of ${value.length} characters` : value
}

/** Its value is never shown. */
function readSecret(refuse: Refuse, secret: unknown): string | Uint8Array {
  const rule = `secret must be a string or bytes of ${SHORTEST_SECRET} bytes or more, the same on all instances`
  if (secret === undefined) return refuse(`secret is required: ${rule.slice('secret must be '.length)}`)
  if (typeof secret !== 'string' && !(secret instanceof Uint8Array))
    return refuse(`${rule}, got ${typeof secret}`)
  const { byteLength } = Buffer.from(secret)
  return byteLength >= SHORTEST_SECRET ? secret : refuse(`${rule}, got ${byteLength} bytes`)
}

function readPrefix(refuse: Refuse, prefix: unknown): string {
  if (typeof prefix === 'string' && /^[\w.-]{1,32}$/.test(prefix)) return prefix
  return refuse(`prefix must be 1 to 32 of A-Z a-z 0-9 . _ -, got ${show(prefix)}`)
}

function readDeadline(refuse: Refuse, value: unknown): number {
  const deadline = asDuration(refuse, 'deadline', value)
  return deadline <= LONGEST_DEADLINE
    ? deadline
    : refuse(`deadline must be at most 10s, got ${showDuration(value)}`)
}
