import rateLimit from '@fastify/rate-limit'
import type { FastifyRequest } from 'fastify'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { serializeList } from 'structured-headers'
import type { QuotaOptions } from '../../../src/index.js'
import type { Owner } from '../../redis/servers.js'
import { Floor } from '../floor.js'
import {
  PLENTY,
  addressesOf,
  appWith,
  fieldsOf,
  libraryOf,
  partitionsIn,
  policies,
  policiesOf
} from '../library.js'
import { partitionsOf } from '../stage.js'
import type { Task } from '../worker.js'
import type { Loop } from './settling.js'

/** Keys are walked through by this step: all of them, and none soon after its neighbour. A prime. */
const STEP = 7919

/** What is made of a task before its time is taken. */
type Preparing = (task: Task, owner: Owner) => Loop | Promise<Loop>

const variants: Readonly<Record<string, Preparing>> = {
  nothing,
  'nothing again': nothing,
  keys: keysAlone,
  'ours, decision': ourDecision,
  'rate-limit, decision': theirDecision,
  'rate-limiter-flexible, decision': flexibleDecision,
  'floor, decision': floorOfDecisions,
  'ours, fields': ourFields,
  'structured-headers': structuredFields,
  'ours, address': task => ourAddress(task, addresses(FEW)),
  'ours, new address': task => ourAddress(task, addresses(MANY)),
  'rate-limit, address': () => theirAddress(addresses(FEW)),
  'rate-limit, new address': () => theirAddress(addresses(MANY))
}

export function loopNamed(name: string): Preparing {
  return variants[name]!
}

/** As many as come again and again, and more than anybody remembers. */
const FEW = 1000
const MANY = 200_000

/** Characters of a key. */
const WIDTH = 9

/** Keys by turns, each written anew, as it is in each request: nothing of it is known from the time before. */
function keyWriter(count: number): () => string {
  const all = Buffer.from(Array.from({ length: count }, (_, i) => `k${String(i).padStart(8, '0')}`).join(''))
  let at = 0
  return () => {
    at = (at + STEP) % count
    return all.toString('latin1', at * WIDTH, (at + 1) * WIDTH)
  }
}

/** The keys that are written for the others. */
function keysAlone({ effort }: Task): Loop {
  const nextKey = keyWriter(partitionsOf(10_000, effort))
  return times => {
    let length = 0
    for (let i = 0; i < times; i++) length += nextKey().length
    return length
  }
}

/** The clock alone, which each decision reads. */
function nothing(): Loop {
  let sum = 0
  return times => {
    for (let i = 0; i < times; i++) sum = (sum + Date.now()) | 0
    return sum
  }
}

async function ourDecision({ root, effort }: Task, owner: Owner): Promise<Loop> {
  const { quota, memoryStore } = await libraryOf(root)
  const { identityPart } = await partitionsIn(root)
  const store = memoryStore({ maxPartitions: 100_000 })
  const app = await appWith(owner, app =>
    app.register(quota, { policies: options(), identify: { key: () => '' }, store })
  )
  const [burst, daily] = await policiesOf(app, { key: 'k' })
  const nextKey = keyWriter(partitionsOf(10_000, effort))
  return times => {
    let allowed = 0
    for (let i = 0; i < times; i++) {
      const partition = identityPart('key', nextKey())!
      const { limits } = store.consume([
        { partition, policy: burst!, units: 1 },
        { partition, policy: daily!, units: 1 }
      ])
      if (limits[0]!.allowed) allowed++
    }
    return allowed
  }
}

async function theirDecision({ effort }: Task, owner: Owner): Promise<Loop> {
  const app = await appWith(owner, app =>
    app.register(rateLimit, {
      max: PLENTY,
      timeWindow: 60_000,
      cache: 100_000,
      keyGenerator: ({ headers }) => String(headers['x-key'])
    })
  )
  const check = app.createRateLimit()
  const nextKey = keyWriter(partitionsOf(10_000, effort))
  const headers = { 'x-key': '' }
  const request = { headers, routeOptions: { config: {} } } as unknown as FastifyRequest
  return async times => {
    let allowed = 0
    for (let i = 0; i < times; i++) {
      headers['x-key'] = nextKey()
      const answer = await check(request)
      if (!answer.isAllowed && !answer.isExceeded) allowed++
    }
    return allowed
  }
}

function floorOfDecisions({ effort }: Task): Loop {
  const counters = new Floor()
  const nextKey = keyWriter(partitionsOf(10_000, effort))
  return times => {
    let spent = 0
    for (let i = 0; i < times; i++) spent += counters.count(nextKey()).burst
    return spent
  }
}

function flexibleDecision({ effort }: Task): Loop {
  const limiter = new RateLimiterMemory({ points: PLENTY, duration: 60 })
  const nextKey = keyWriter(partitionsOf(10_000, effort))
  return async times => {
    let left = 0
    for (let i = 0; i < times; i++) left = (await limiter.consume(nextKey())).remainingPoints
    return left
  }
}

/** What Node asks of each value of a field; it makes one string of what was put together. */
const UNSENDABLE = /[^\t\x20-\x7e\x80-\xff]/

async function ourFields({ root }: Task): Promise<Loop> {
  const { limitPrefix, limitText } = await fieldsOf(root)
  const burst = limitPrefix('burst')
  const daily = limitPrefix('daily')
  return writing(
    (available, window) =>
      `${limitText(burst, available, window)}, ${limitText(daily, available * 9, window * 60)}`
  )
}

function structuredFields(): Loop {
  const item = (available: number, window: number): Map<string, number> =>
    new Map([
      ['r', available],
      ['t', window]
    ])
  return writing((available, window) =>
    serializeList([
      ['burst', item(available, window)],
      ['daily', item(available * 9, window * 60)]
    ])
  )
}

function writing(text: (available: number, window: number) => string): Loop {
  let turn = 0
  return times => {
    let length = 0
    for (let i = 0; i < times; i++) {
      turn = (turn + 1) % 1_000_000
      const field = text(turn % 100, 1 + (turn % 59))
      if (!UNSENDABLE.test(field)) length += field.length
    }
    return length
  }
}

const addresses = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, i) => {
    const [high, low] = [4096 + (i >> 8), 4096 + (i & 255)].map(part => part.toString(16))
    return Buffer.from(`2001:db8:${high}:${low}:1319:8a2e:370:7348`).toString('latin1')
  })

async function ourAddress({ root }: Task, known: readonly string[]): Promise<Loop> {
  const { addressing } = await addressesOf(root)
  const part = addressing(64)
  return reading(known, address => part(address, undefined))
}

const theirAddress = (known: readonly string[]): Loop =>
  reading(known, address => rateLimit.normalizeIP(address))

function reading(known: readonly string[], part: (address: string) => string): Loop {
  let at = 0
  return times => {
    let length = 0
    for (let i = 0; i < times; i++) {
      at = (at + 1) % known.length
      length += part(known[at]!).length
    }
    return length
  }
}

const options = (): QuotaOptions['policies'] => policies(2, 'key') as QuotaOptions['policies']
