import t from 'tap'
import { Bench } from './bench.js'
import type { Ending, Terms } from './bench.js'
import { brokenPromises } from './demands.js'
import { faults } from './faults.js'
import { needsRedis } from './kit.js'

// A small one, which asks for nothing that takes a machine with time to spare; `npm run faults` has the large one.

t.setTimeout(120_000)

const terms: Terms = {
  modes: ['open', 'closed', 'local'],
  rate: 300,
  quota: 80,
  instances: 4,
  deadline: '150ms',
  seconds: { warm: 0, before: 0.2, during: 0.9, after: 0.3 },
  patience: 20
}

const isOver = ({ code }: Ending): boolean => code === 0

t.test(
  'an app lives through all faults, one after the other, and keeps its promises',
  needsRedis,
  async t => {
    const [first, ...later] = faults.filter(({ atBoot }) => atBoot !== true)
    const bench = await Bench.start(t, terms, first!)
    for (const fault of [first!, ...later]) {
      t.strictSame(brokenPromises(await bench.see(fault)), [], fault.name)
    }
    t.ok(isOver(await bench.close()), 'and its process ends by itself')
  }
)

t.test('an app starts without Redis, and counts as soon as there is one', needsRedis, async t => {
  for (const fault of faults.filter(({ atBoot }) => atBoot)) {
    const bench = await Bench.start(t, terms, fault)
    t.strictSame(brokenPromises(await bench.see(fault)), [], fault.name)
    t.ok(isOver(await bench.close()), 'and its process ends by itself')
  }
})
