import { timesOf } from './playing.js'
import type { Played, Times } from './playing.js'

/** Minutes after which an alert fires at the latest, and is over: those for which its rule waits, or looks back. */
interface Limits {
  readonly fires: number
  readonly clears: number
}

const LIMITS: Readonly<Record<string, Limits>> = {
  FastifyQuotaStoreDown: { fires: 2, clears: 0 },
  FastifyQuotaStoreFault: { fires: 0, clears: 5 },
  FastifyQuotaWithoutStore: { fires: 5, clears: 3 },
  FastifyQuotaStoreSlow: { fires: 5, clears: 3 },
  FastifyQuotaManyRefused: { fires: 10, clears: 5 },
  FastifyQuotaNearlyUsed: { fires: 10, clears: 5 },
  FastifyQuotaMemoryFull: { fires: 0, clears: 10 }
}

/** Minutes for scrapes and evaluations, and milliseconds for what does not hasten: to give up, to probe, to connect. */
const SCRAPES = 1
const OWN_TIME = 2500

/** Milliseconds from which on a machine is too busy to be asked for times, or to say whether it was Redis that was slow. */
const BUSY = 10

/** What a machine that stands still looks like from outside. */
const OF_BUSY = ['FastifyQuotaStoreSlow', 'FastifyQuotaWithoutStore']

/** What should have been otherwise. */
export function brokenDemands(played: Played, minute: number): readonly string[] {
  const { scene, stood } = played
  const times = timesOf(played, minute)
  const [own, others] = [true, false].map(is =>
    times.filter(({ alert }) => scene.alerts.includes(alert) === is)
  )
  const missing = scene.alerts.filter(name => !times.some(({ alert }) => alert === name))
  const wrong = others!.filter(({ alert }) => stood < BUSY || !OF_BUSY.includes(alert))
  return [
    ...missing.map(alert => `${alert} did not fire`),
    ...wrong.map(({ alert, fired }) => `${alert} fired after ${fired} minutes, for nothing`),
    ...(stood < BUSY ? own!.flatMap(time => missedTimes(time, minute)) : [])
  ]
}

function missedTimes({ alert, fired, cleared }: Times, minute: number): readonly string[] {
  const { fires, clears } = LIMITS[alert.split(' ')[0]!]!
  const slack = SCRAPES + OWN_TIME / minute
  return [
    ...(fired > fires + slack ? [`${alert} fired after ${fired} minutes`] : []),
    ...(cleared > clears + slack ? [`${alert} was over after ${cleared} minutes`] : [])
  ]
}
