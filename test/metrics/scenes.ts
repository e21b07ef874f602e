import { faults } from '../faults/faults.js'
import type { End } from '../faults/faults.js'
import type { Stage } from './stage.js'

/** Something that goes wrong. */
export interface Scene {
  readonly name: string
  /** The alerts that fire for it, with the instance if they are about one. No others may. */
  readonly alerts: readonly string[]
  /** It is on when the apps start. */
  readonly atBoot?: true
  /** Begins it, and returns what ends it. */
  readonly begin: (stage: Stage) => End | Promise<End>
}

/** Both apps are without a store, or the one across the network is. */
const DOWN = ['FastifyQuotaStoreDown direct', 'FastifyQuotaStoreDown far', 'FastifyQuotaWithoutStore']
const FAR_DOWN = ['FastifyQuotaStoreDown far', 'FastifyQuotaWithoutStore']

/** What fires for each fault of the table of faults, by the beginning of its name. */
const OF_FAULTS: Readonly<Record<string, readonly string[]>> = {
  hangs: DOWN,
  killed: DOWN,
  '300 ms of latency': FAR_DOWN,
  'replies are lost': FAR_DOWN,
  'connections cut once': [],
  'connections cut each 400 ms': ['FastifyQuotaWithoutStore'],
  READONLY: DOWN,
  OOM: DOWN,
  'FLUSHALL, SCRIPT FLUSH': [],
  'down at boot': DOWN
}

/** Milliseconds that a slow network adds each way: more than the alert wants, less than the deadline. */
const SLOW = 30

const OTHERS: readonly Scene[] = [
  {
    name: 'all is well',
    alerts: [],
    begin: () => () => {}
  },
  {
    name: `${2 * SLOW} ms of latency`,
    alerts: ['FastifyQuotaStoreSlow'],
    begin: ({ proxy }) => {
      proxy.delay = SLOW
      return () => void (proxy.delay = 0)
    }
  },
  {
    // It is told once a minute, which does not hasten: the first of these alerts may be over before the scene is.
    name: 'a command is forbidden',
    alerts: ['FastifyQuotaStoreFault direct', 'FastifyQuotaStoreFault far', 'FastifyQuotaWithoutStore'],
    begin: async ({ redis }) => {
      await redis.command('ACL', 'SETUSER', 'default', '-hset')
      return () => redis.command('ACL', 'SETUSER', 'default', '+@all')
    }
  },
  {
    name: 'more than the quota allows',
    alerts: ['FastifyQuotaManyRefused', 'FastifyQuotaNearlyUsed'],
    begin: ({ loads }) => {
      for (const load of loads) load.pressure = 6
      return () => {
        for (const load of loads) load.pressure = 1
      }
    }
  },
  {
    name: 'more clients than there is memory for',
    alerts: ['FastifyQuotaMemoryFull crowded'],
    begin: ({ crowd }) => {
      crowd.rate = 60
      return () => void (crowd.rate = 0)
    }
  }
]

/** The one that is on when the stage is set comes first. */
export const scenes: readonly Scene[] = [
  ...faults
    .toSorted((a, b) => Number(b.atBoot ?? false) - Number(a.atBoot ?? false))
    .map(({ name, begin, atBoot }) => ({ name, begin, alerts: alertsOf(name), ...(atBoot && { atBoot }) })),
  ...OTHERS
]

function alertsOf(fault: string): readonly string[] {
  const known = Object.entries(OF_FAULTS).find(([name]) => fault.startsWith(name))
  if (known === undefined) throw new Error(`nobody has said which alerts fire when ${fault}`)
  return known[1]
}
