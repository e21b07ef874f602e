import t from 'tap'
import { brokenDemands } from './demands.js'
import type { Played } from './playing.js'
import type { Firing } from './prometheus.js'

const minute = 60_000

/** An alert that fires from one minute to another. */
const firing = (alert: string, from: number, to: number): Firing => ({
  alert,
  from: from * minute,
  to: to * minute
})

/** A scene of ten minutes for which a store is down. */
const played = (firings: readonly Firing[], stood: number = 0): Played => ({
  scene: { name: 'killed', alerts: ['FastifyQuotaStoreDown a'], begin: () => () => {} },
  during: { from: 0, to: 10 * minute },
  firings,
  stood
})

const down = firing('FastifyQuotaStoreDown a', 2, 10.5)

t.test('an alert has to fire in time, and to be over in time', async t => {
  t.strictSame(brokenDemands(played([down]), minute), [])
  t.strictSame(brokenDemands(played([]), minute), ['FastifyQuotaStoreDown a did not fire'])
  t.match(brokenDemands(played([{ ...down, from: 4 * minute }]), minute), [/a fired after 4 minutes$/])
  t.match(brokenDemands(played([{ ...down, to: 12 * minute }]), minute), [/a was over after 2 minutes$/])
  t.match(brokenDemands(played([down, firing('FastifyQuotaStoreDown a', 11, 13)]), minute), [/over after 3/])
})

t.test('no other alert may fire, nor that of another instance', async t => {
  for (const alert of ['FastifyQuotaStoreDown b', 'FastifyQuotaManyRefused', 'FastifyQuotaStoreSlow'])
    t.strictSame(brokenDemands(played([down, firing(alert, 3, 4)]), minute), [
      `${alert} fired after 3 minutes, for nothing`
    ])
})

t.test('of a machine that stands still, nobody wants times, nor says that Redis was not slow', async t => {
  t.strictSame(brokenDemands(played([{ ...down, from: 9 * minute }], 30), minute), [])
  t.strictSame(brokenDemands(played([], 30), minute), ['FastifyQuotaStoreDown a did not fire'])
  t.strictSame(brokenDemands(played([down, firing('FastifyQuotaStoreSlow', 3, 4)], 30), minute), [])
  t.match(brokenDemands(played([down, firing('FastifyQuotaManyRefused', 3, 4)], 30), minute), [/for nothing/])
})
