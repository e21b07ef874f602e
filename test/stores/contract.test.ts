import t from 'tap'
import { memoryStore } from '../../src/stores/memory.js'
import { startRedis } from '../redis/servers.js'
import { keepsTheContract } from './contract.js'
import { clientOf, openStore } from './redis/kit.js'

t.setTimeout(120_000)

const server = await startRedis(t)

t.test('a store in memory', t => {
  const clock = { now: 0 }
  const store = memoryStore()
  store.useClock(() => clock.now)
  return keepsTheContract(t, { store, source: 'memory', clock })
})

t.test('a store in memory that counts by its own clock', t =>
  keepsTheContract(t, { store: memoryStore(), source: 'memory' })
)

t.test('a store in Redis that is told the time', async t => {
  const clock = { now: 0 }
  const store = await openStore(t, clientOf(t, server), { time: 'caller' })
  store.useClock(() => clock.now)
  await keepsTheContract(t, { store, source: 'redis', clock })
})

t.test("a store in Redis that counts by the server's clock", async t => {
  const store = await openStore(t, clientOf(t, server))
  await keepsTheContract(t, { store, source: 'redis' })
})

t.test('a store in Redis that keeps partitions apart, as on a cluster', async t => {
  const clock = { now: 0 }
  const store = await openStore(t, clientOf(t, server), {
    time: 'caller',
    cluster: 'by-partition',
    prefix: 'apart'
  })
  store.useClock(() => clock.now)
  await keepsTheContract(t, { store, source: 'redis', clock })
})
