import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import quota, { memoryStore } from '../../src/index.js'
import type { MemoryStore } from '../../src/index.js'

/** What comes. */
export interface Flood {
  /** Addresses that nobody has seen before, each with one request. */
  readonly strangers: number
  /** Partitions that the store has room for. */
  readonly room: number
}

/** What was found meanwhile. */
export interface Seen {
  /** Requests of the one who has spent all: how many were refused, and how many there were. */
  readonly refused: number
  readonly asked: number
  /** The same of the regulars, who have quota to spare, and how many were served. */
  readonly served: number
  readonly regulars: number
  /** The most that the store has held. */
  readonly partitions: number
  readonly bytes: number
}

export interface Place {
  readonly app: FastifyInstance
  readonly store: MemoryStore
}

export const QUOTA = 5
/** Bytes for each partition there is room for: more than they take. */
const BYTES_EACH = 400

const SPENT = '203.0.113.7'
const regular = (i: number): string => `198.51.100.${i % 256}`
const stranger = (i: number): string => `10.${(i >> 16) & 255}.${(i >> 8) & 255}.${i & 255}`

/** Strangers that come in one turn of the event loop, and turns between two looks at those who were there before. */
const AT_ONCE = 20
const LOOK_EVERY = 10

/** Requests that reach an app, by address; resolves to whether they are served. */
export type Ask = (address: string) => Promise<boolean>

/** An app with five logins an hour for each address. */
export async function place(t: Test, room: number): Promise<Place> {
  const app = Fastify() as unknown as FastifyInstance
  t.teardown(() => app.close())
  const store = memoryStore({ maxPartitions: room, maxBytes: room * BYTES_EACH })
  await app.register(quota, {
    policies: { login: { quota: QUOTA, window: '1h' }, burst: { quota: 1000, window: '1m' } },
    store
  })
  app.get('/login', () => 'welcome')
  await app.ready()
  return { app, store }
}

export const byCall =
  ({ app }: Place): Ask =>
  async address =>
    (await app.quota.consume({ ip: address }, { login: 1, burst: 1 })).outcome === 'allowed'

export const byRequest =
  ({ app }: Place): Ask =>
  async address => {
    const { statusCode } = await app.inject({ url: '/login', remoteAddress: address })
    return statusCode === 200
  }

/** One address spends all it has, regulars spend a part, and then strangers come without end. */
export async function flood({ store }: Place, ask: Ask, { strangers, room }: Flood): Promise<Seen> {
  const regulars = Math.min(200, room >> 1)
  for (let i = 0; i < QUOTA; i++) if (!(await ask(SPENT))) throw new Error('refused before all was spent')
  for (let i = 0; i < regulars; i++) await ask(regular(i))
  const seen = { refused: 0, asked: 0, served: 0, regulars: 0, partitions: 0, bytes: 0 }
  for (let come = 0, turn = 0; come < strangers; turn++) {
    for (let i = 0; i < AT_ONCE; i++) await ask(stranger(come++))
    await new Promise(resolve => setImmediate(resolve))
    if (turn % LOOK_EVERY !== 0) continue
    const { partitions, bytes } = store.use
    seen.partitions = Math.max(seen.partitions, partitions)
    seen.bytes = Math.max(seen.bytes, bytes)
    seen.asked++
    if (!(await ask(SPENT))) seen.refused++
    // Each of them comes once more, so that none spends more than it has.
    if (seen.regulars === regulars) continue
    if (await ask(regular(seen.regulars++))) seen.served++
  }
  return seen
}

/** What has to be true of every flood. */
export function check(t: Test, seen: Seen, { strangers, room }: Flood): void {
  t.equal(seen.refused, seen.asked, 'who has spent all stays refused')
  t.ok(seen.asked >= strangers / AT_ONCE / LOOK_EVERY, `looked ${seen.asked} times`)
  t.equal(seen.served, seen.regulars, 'who has quota to spare is served')
  t.ok(seen.regulars > 0, `${seen.regulars} regulars came`)
  t.ok(strangers > room, 'there is no room for all')
  t.ok(seen.partitions <= room, `${seen.partitions} partitions of ${room}`)
  t.ok(seen.bytes <= room * BYTES_EACH, `${seen.bytes} bytes of ${room * BYTES_EACH}`)
}
