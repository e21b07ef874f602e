import { createHash } from 'node:crypto'
import calculateSlot from 'cluster-key-slot'
import { warnEviction, warnOldRedis, warnReplica } from '../../warnings.js'
import { OLDEST, connect, connectNodes, dedicated, isCluster, readInfo } from './client.js'
import type { RedisClient } from './client.js'
import type { Command } from './command.js'
import { planScript } from './plan-script.js'
import type { Plan } from './plans.js'
import { script } from './script.js'
import { diagnose } from '../guard/failure.js'
import type { Timing } from '../guard/timing.js'

/** Milliseconds that the start of an app waits for the first connection. */
const PATIENCE = 1500

/**
 * Numbers of keys that a shared client gets to know at once. One that bundles commands breaks down if it is told of one while
 * it has a bundle open.
 */
const DEFINED = 32

/** The script, on a connection of the store's own or on the application's. */
export class ScriptClient {
  readonly #source: RedisClient
  readonly #shared: boolean
  readonly #timing: Timing
  readonly #defined = new Set<number>()
  readonly #plans = new Map<Plan, string>()
  readonly #advised = new Set<string>()
  #client: RedisClient | undefined
  #shebang = false
  #prepared = false
  // Of a client that is open.
  #connected!: () => Promise<void>
  #decided!: () => void
  #lastError = 'CONNECTION'

  constructor(source: RedisClient, connection: 'dedicated' | 'shared', timing: Timing) {
    this.#source = source
    this.#shared = connection === 'shared'
    this.#timing = timing
  }

  /** Whether a call can be sent. In any other state the client would keep it for later, or refuse it. */
  get ready(): boolean {
    return this.#prepared && this.#client?.status === 'ready'
  }

  /** Whether it was not opened yet, or closed since. */
  get closed(): boolean {
    return this.#client === undefined
  }

  /** Why there is no connection, as far as it is known. */
  get lastError(): string {
    return this.#lastError
  }

  /**
   * Connects, and resolves when that has worked out, has failed, or takes too long: it goes on in the background then.
   * `connected` is called for each new connection. Resolves to `false` if it was closed meanwhile.
   */
  async open(connected: () => Promise<void>): Promise<boolean> {
    const client = this.#shared ? this.#source : dedicated(this.#source)
    this.#client = client
    this.#forget()
    this.#connected = connected
    let decide!: () => void
    const decided = new Promise<void>(resolve => (decide = resolve))
    this.#decided = decide
    client.on('ready', this.#ready)
    client.on('close', this.#lost)
    client.on('error', this.#failed)
    if (!this.#shared) client.on('+node', this.#found)
    const cancel = this.#timing.after(PATIENCE, decide)
    if (client.status === 'ready') this.#ready()
    else connect(client)
    await decided
    cancel()
    return !this.closed && this.#decided === decide
  }

  close(): void {
    const client = this.#client
    if (client === undefined) return
    this.#client = undefined
    this.#prepared = false
    this.#decided()
    client.off('ready', this.#ready)
    client.off('close', this.#lost)
    // A connection of our own may still fail while it ends, and an error that nobody listens to is printed.
    if (this.#shared) client.off('error', this.#failed)
    else client.disconnect()
  }

  /**
   * Calls the script, or that of a plan, which may reject. `fence` is the server's time after which it does nothing; 0: there is
   * none. `time` is the caller's; 0: the server's counts.
   */
  async execute(
    { operation, plan, keys, fields, items }: Command,
    time: number,
    fence: number
  ): Promise<unknown> {
    const commands = this.#client as unknown as Record<
      string,
      (...words: readonly string[]) => Promise<unknown>
    >
    if (plan !== undefined) {
      const when = plan.clock === 'server' ? fence : time
      return commands[this.#planned(plan)]!(...keys, String(when), ...items)
    }
    if (!this.#defined.has(keys.length)) this.#define(keys.length)
    const head = [operation, String(time), String(fence), String(fields)]
    return commands[inBytes(commandName(keys.length))]!(...keys, ...head, ...items)
  }

  /** The node of a cluster that has a key; `undefined`: there is but one, or nobody knows. */
  nodeOf(key: string): string | undefined {
    const client = this.#client
    return client !== undefined && isCluster(client) ? client.slots[calculateSlot(key)]?.[0] : undefined
  }

  /** Finds out which nodes a cluster has: one that hangs is only ever left when the table of slots says so. */
  rediscover(): void {
    const client = this.#client!
    if (isCluster(client)) client.refreshSlotsCache()
  }

  #forget(): void {
    this.#defined.clear()
    this.#plans.clear()
  }

  /** A command for each number of keys: a client that bundles commands has to know which arguments are keys. */
  #define(keys: number): void {
    this.#defined.add(keys)
    this.#client!.defineCommand(commandName(keys), { lua: script(this.#shebang), numberOfKeys: keys })
  }

  /** The command of a plan. Its name is that of its text: others who share the client have plans of their own. */
  #planned(plan: Plan): string {
    const known = this.#plans.get(plan)
    if (known !== undefined) return known
    const lua = planScript(plan.parts, plan.clock, this.#shebang)
    const name = `fastifyQuota_${createHash('sha1').update(lua).digest('hex')}`
    this.#client!.defineCommand(name, { lua, numberOfKeys: plan.keys })
    this.#plans.set(plan, inBytes(name))
    return inBytes(name)
  }

  readonly #ready = (): void => void this.#prepare()

  /** A new connection may be to another server. */
  async #prepare(): Promise<void> {
    const client = this.#client!
    const [info] = await Promise.all([this.#infoOf(client), this.#shared || connectNodes(client)])
    if (client !== this.#client) return
    const { shebang, version, evicts, replica } = readInfo(info)
    if (shebang !== this.#shebang) this.#forget()
    this.#shebang = shebang
    this.#prepared = true
    if (this.#shared) for (let keys = 1; keys <= DEFINED; keys++) this.#define(keys)
    if (Number.parseInt(version, 10) < OLDEST) this.#advise(version, () => warnOldRedis(version))
    if (evicts !== undefined) this.#advise(evicts, () => warnEviction(evicts))
    if (replica) this.#advise('replica', warnReplica)
    await this.#connected()
    this.#decided()
  }

  /** Each advice is given once: connections come and go. */
  #advise(about: string, warn: () => void): void {
    if (this.#advised.has(about)) return
    this.#advised.add(about)
    warn()
  }

  /** What `INFO` says; nothing, if it may not be asked. */
  #infoOf(client: RedisClient): Promise<string> {
    return new Promise(resolve => {
      const cancel = this.#timing.after(PATIENCE, () => resolve(''))
      const told = (info: string): void => {
        cancel()
        resolve(info)
      }
      client.info().then(told, () => told(''))
    })
  }

  /**
   * A node found before the cluster is ready is connected with the others. A later one is not at once: whoever asks for it now
   * waits for it, and would not while it connects.
   */
  readonly #found = (node: unknown): void =>
    void setImmediate(() => {
      if (this.#client?.status === 'ready') connect(node as RedisClient)
    })

  readonly #lost = (): void => this.#decided()

  readonly #failed = (error: unknown): void => {
    this.#lastError = diagnose(error).code
  }
}

/** Unlike any command that others may have defined on a shared client. */
const commandName = (keys: number): string => `fastifyQuota${keys}`

/** What a client calls a command whose answer is bytes. */
const inBytes = (name: string): string => `${name}Buffer`
