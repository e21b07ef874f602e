import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Redis } from 'ioredis'
import type { RedisOptions } from 'ioredis'
import { STORE_CHANNEL } from '../../../src/store.js'
import type { StoreChange } from '../../../src/store.js'
import type { Timing } from '../../../src/stores/guard/timing.js'
import { redisStore } from '../../../src/stores/redis.js'
import { decode } from '../../../src/stores/redis/command.js'
import type { RedisStore, RedisStoreOptions } from '../../../src/stores/redis.js'
import type { RedisClient } from '../../../src/stores/redis/client.js'
import type { Owner } from '../../redis/servers.js'

export const SECRET = 'a secret of thirty-two bytes, and more'

/** For tests whose subject is not the deadline. */
export const PATIENT: RedisStoreOptions = { onFailure: 'closed', secret: SECRET, deadline: '10s' }

interface Address {
  readonly host: string
  readonly port: number
}

/** Under `exactOptionalPropertyTypes`, a client does not take its own options. */
type Options = Omit<RedisOptions, 'replyMapping'>

/** A client of a server, as an application has one. */
export function clientOf(owner: Owner, { host, port }: Address, options: Options = {}): Redis {
  const client: Redis = new Redis(port, host, options)
  client.on('error', () => {})
  owner.teardown(() => client.disconnect())
  return client
}

/** A store that is open until the end of a test. */
export async function openStore(
  owner: Owner,
  client: RedisClient,
  options: Partial<RedisStoreOptions> = {}
): Promise<RedisStore> {
  const store = redisStore(client, { ...PATIENT, ...options })
  owner.teardown(() => store.close())
  await store.open()
  return store
}

/** Numbers as the scripts answer them. */
export const doubles = (...numbers: readonly number[]): Buffer =>
  Buffer.from(new Float64Array(numbers).buffer)

/** Whether bytes are the answer to a probe: the time there, and that it came in time. */
export function isWell(answer: unknown): boolean {
  const { now, fenced } = decode(answer, 0) ?? { now: 0, fenced: true }
  return now > 1e12 && !fenced
}

export type Rewrite = (text: string) => string

/** The same client, on which scripts are defined with another text. For stores that share it: a duplicate does not know. */
export function rewriting(client: Redis, rewrite: Rewrite): Redis {
  const define = client.defineCommand.bind(client)
  client.defineCommand = (name, definition) => define(name, { ...definition, lua: rewrite(definition.lua) })
  return client
}

/** Replaces each place of a text. @throws if there is none: the text has changed, and the test has to. */
export function replacing(old: string, by: string): Rewrite {
  return text => {
    if (!text.includes(old)) throw new Error(`the script has no ${JSON.stringify(old)}`)
    return text.replaceAll(old, by)
  }
}

/** Waits for what happens soon, not for ever. */
export async function until(what: string, look: () => unknown, patience: number = 20_000): Promise<void> {
  for (const end = performance.now() + patience; !(await look());) {
    if (performance.now() > end) throw new Error(`waited in vain for ${what}`)
    await new Promise(resolve => setTimeout(resolve, 5))
  }
}

/** What stores tell of themselves, from now to the end of a test. */
export function watchChanges(owner: Owner): StoreChange[] {
  const changes: StoreChange[] = []
  const listen = (message: unknown): void => void changes.push(message as StoreChange)
  subscribe(STORE_CHANNEL, listen)
  owner.teardown(() => unsubscribe(STORE_CHANNEL, listen))
  return changes
}

/** A time that stands still, and timers that go off when a test says so. */
export class StillTime implements Timing {
  time = 0
  readonly #timers = new Set<{ readonly due: number; readonly work: () => void }>()

  now(): number {
    return this.time
  }

  after(ms: number, work: () => void): () => void {
    const timer = { due: this.time + ms, work }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  random(): number {
    return 0.5
  }

  /** Timers that are set. */
  get pending(): number {
    return this.#timers.size
  }

  pass(ms: number): void {
    this.time += ms
    for (const timer of this.#timers) {
      if (timer.due > this.time) continue
      this.#timers.delete(timer)
      timer.work()
    }
  }
}
