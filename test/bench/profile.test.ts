import t from 'tap'
import { here } from './here.js'
import { profiles, profilesAsText } from './profile.js'
import { HERE, ownRedis } from './run.js'

const TINY = { rounds: 4, warmUp: 1, slice: 500, batch: 1, watch: 1, partitions: 500 }

t.test('it is found where the time of requests goes', { timeout: 60_000 }, async t => {
  const redis = await ownRedis(t)
  const found = await profiles({ ...TINY, redis }, HERE.root, here)
  const inRedis = ['by Redis', 'bare', 'floor, Redis', 'ours, Redis', 'rate-limit, Redis']
  t.strictSame(
    found.map(({ outcome, subjects }) => [outcome, ...subjects.map(({ name }) => name)]),
    [
      ['admitted', 'bare', 'floor', 'ours', 'rate-limit twice'],
      ['refused', 'bare', 'floor, refusing', 'ours, refusing', 'rate-limit, refusing'],
      ...(redis === undefined ? [] : [inRedis])
    ]
  )
  for (const { subjects } of found) {
    for (const { name, places } of subjects) {
      t.ok(places['Node.js']! > 0, name)
      t.ok(Object.values(places).every(time => time > 0 && Number.isFinite(time)))
    }
  }
})

t.test(
  'a line for each place of any weight, the heaviest first, and what is little put together',
  async t => {
    const subjects = [
      { name: 'bare', places: { 'Node.js': 12, fastify: 1.5, 'find-my-way': 0.02, toad: 0.01 } },
      { name: 'ours', places: { 'Node.js': 14, 'ours: plugin': 0.25, 'ours: a': 0.04, 'ours: b': 0.03 } }
    ]
    t.equal(
      profilesAsText([
        { outcome: 'admitted', subjects },
        { outcome: 'refused', subjects: subjects.slice(0, 1) }
      ]),
      `
admitted, µs     bare   ours
Node.js          12.0   14.0
fastify          1.50
ours: plugin            0.25
ours: the rest         0.070
the rest        0.030
in all           13.5   14.3
of that, ours           0.32

refused, µs     bare
Node.js         12.0
fastify         1.50
the rest       0.030
in all          13.5
of that, ours
`.slice(1)
    )
  }
)
