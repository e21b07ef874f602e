import t from 'tap'
import { compilePolicy } from '../../../src/policy.js'
import type { QuotaPolicy } from '../../../src/policy.js'
import { Partitions, SHARED_ROW } from '../../../src/stores/memory/partitions.js'
import type { Bounds } from '../../../src/stores/memory/partitions.js'

const NOW = 1_753_900_000_000
const HOUR = 3_600_000

const policy = (name: string, quota: number): QuotaPolicy =>
  compilePolicy(name, { quota, window: '1h', algorithm: 'fixed-window' }, [])
const ten = policy('ten', 10)

interface Held {
  readonly partitions: Partitions
  /** Holds a partition that has spent so many units. */
  readonly spend: (partition: string, units: number, by?: QuotaPolicy) => number
  readonly clock: { now: number }
  forgetting: number
}

function held(bounds: Partial<Bounds>): Held {
  const it = { forgetting: 0, clock: { now: NOW } }
  const partitions = new Partitions({ partitions: 1000, bytes: Infinity, ...bounds }, () => it.forgetting++)
  const spend: Held['spend'] = (partition, units, by = ten) => {
    const { now } = it.clock
    const row = partitions.hold(partition, now, [])
    const cells = partitions.cells(by)
    partitions.write(row, cells, by, now, by.algorithm.step(cells.read(row), by.params, now, units))
    return row
  }
  return Object.assign(it, { partitions, spend })
}

/** Sweeps until only the living are held. */
async function swept({ partitions, clock }: Held): Promise<void> {
  for (let rounds = 0; rounds < 8; rounds++) {
    partitions.sweep(() => clock.now)
    await new Promise(resolve => setImmediate(resolve))
  }
}

t.test('a partition keeps its row, and a row that was given up is used again', async t => {
  const { partitions, spend, clock } = held({ partitions: 2 })
  const a = spend('a', 1)
  const b = spend('b', 1)
  t.equal(partitions.find('a'), a)
  t.equal(partitions.hold('b', NOW, []), b)
  t.equal(partitions.find('c'), SHARED_ROW)
  t.not(a, SHARED_ROW)
  clock.now += HOUR
  const c = spend('c', 1)
  t.ok(c === a || c === b)
  t.equal(partitions.size, 2)
  t.strictSame(partitions.forgotten, { evicted: 0, shared: 0 }, 'what has expired is not missed')
})

t.test('who has most to spare goes first', async t => {
  const it = held({ partitions: 4 })
  for (const [i, units] of [3, 1, 2, 4].entries()) it.spend(`${i}`, units)
  it.spend('new', 4)
  t.equal(it.partitions.find('1'), SHARED_ROW)
  it.spend('newer', 4)
  t.equal(it.partitions.find('2'), SHARED_ROW)
  t.strictSame(it.partitions.forgotten, { evicted: 2, shared: 0 })
  t.equal(it.forgetting, 2)
})

t.test('a policy of which little is left protects the partition, whatever others have left', async t => {
  const it = held({ partitions: 2 })
  it.spend('a', 9)
  it.spend('a', 1, policy('other', 100))
  it.spend('b', 1, policy('other', 100))
  it.spend('new', 1)
  t.not(it.partitions.find('a'), SHARED_ROW)
  t.equal(it.partitions.find('b'), SHARED_ROW)
})

t.test('who has less than half left stays, and newcomers share a row', async t => {
  const it = held({ partitions: 3 })
  for (const partition of ['a', 'b', 'c']) it.spend(partition, 6)
  t.equal(it.spend('new', 1), SHARED_ROW)
  t.equal(it.spend('newer', 1), SHARED_ROW)
  t.equal(it.partitions.size, 3)
  t.equal(it.partitions.find('new'), SHARED_ROW)
  t.strictSame(it.partitions.forgotten, { evicted: 0, shared: 2 })
  t.ok(it.partitions.cells(ten).read(SHARED_ROW).includes(2), 'which counts them together')
  it.clock.now += HOUR
  t.not(it.spend('new', 1), SHARED_ROW, 'until there is room')
})

t.test('half is enough to be forgotten', async t => {
  const it = held({ partitions: 1 })
  it.spend('a', 5)
  t.not(it.spend('new', 1), SHARED_ROW)
  t.equal(it.partitions.find('a'), SHARED_ROW)
})

t.test('the rows of one call stay, even if they are too many', async t => {
  const it = held({ partitions: 2 })
  const rows: number[] = []
  for (const partition of ['a', 'b', 'c']) rows.push(it.partitions.hold(partition, NOW, rows))
  t.equal(new Set(rows).size, 3)
  t.equal(it.partitions.size, 3)
})

t.test('bytes are bounded too, however long the names are, and those of states count', async t => {
  const it = held({ bytes: 20_000 })
  const log = compilePolicy('log', { quota: 100, window: '1h', algorithm: 'sliding-window-log' }, [])
  for (let i = 0; i < 1000; i++) it.spend(`${'x'.repeat(200)}${i}`, 1)
  t.ok(it.partitions.size < 400 && it.partitions.size > 200, `${it.partitions.size}`)
  t.ok(it.partitions.bytes <= 20_000, `${it.partitions.bytes}`)
  const before = it.partitions.bytes
  for (let i = 0; i < 40; i++) {
    it.clock.now += 1
    it.spend('one', 1, log)
  }
  t.ok(it.partitions.bytes > before + 40 * 8, 'a list counts')
  for (let i = 0; i < 100; i++) it.spend(`more ${i}`, 1)
  t.ok(it.partitions.bytes <= 20_000, 'and is made up for')
})

t.test('with room for one alone, the others share', async t => {
  const it = held({ bytes: 64 })
  it.spend('a', 6)
  t.equal(it.spend('b', 1), SHARED_ROW)
  t.equal(it.partitions.size, 1)
})

t.test('when all have expired, a sweep is over before it has been round', async t => {
  const it = held({ partitions: 10_000 })
  for (let i = 0; i < 8192; i++) it.spend(`${i}`, 1)
  it.clock.now += HOUR
  await swept(it)
  t.equal(it.partitions.size, 0)
  t.equal(it.partitions.bytes, 0)
  t.not(it.spend('1', 1), SHARED_ROW)
})

t.test('who has all bytes is not looked for among thousands of empty rows', async t => {
  const it = held({ bytes: 60_000 })
  const log = compilePolicy(
    'log',
    { quota: 9000, window: '2h', algorithm: 'sliding-window-log', largeLog: true },
    []
  )
  it.spend('first', 6, log)
  for (let i = 0; i < 600; i++) it.spend(`${i}`, 6)
  it.clock.now += HOUR
  await swept(it)
  t.equal(it.partitions.size, 1)
  for (let i = 0; i < 5000; i++) {
    it.clock.now += 1
    it.spend('first', 1, log)
  }
  t.equal(it.spend('new', 1), SHARED_ROW)
})

t.test('somebody who may go is found among empty rows, in whichever chunk', async t => {
  const it = held({ partitions: 70_000, bytes: 4_500_000 })
  const long = compilePolicy('long', { quota: 10, window: '2h', algorithm: 'fixed-window' }, [])
  for (let i = 0; i < 60_000; i++) it.spend(`${i}`, 1, i % 30_000 === 7 ? long : ten)
  const log = compilePolicy('log', { quota: 10, window: '2h', algorithm: 'sliding-window-log' }, [])
  it.spend('large', 6, log)
  it.clock.now += HOUR
  for (let rounds = 0; rounds < 8; rounds++) await swept(it)
  t.equal(it.partitions.size, 3)
  const row = it.partitions.find('large')
  const state = Array.from({ length: 600_000 }, (_, i) => i + 0.5)
  it.partitions.write(row, it.partitions.cells(log), log, it.clock.now, {
    allowed: true,
    state,
    remaining: 0,
    effectiveWindow: 0,
    retryAfter: 0,
    delay: 0,
    ttl: HOUR
  })
  for (let i = 0; i < 4; i++) it.spend(`new ${i}`, 1)
  t.equal(it.partitions.size, 1, 'who had quota to spare made room')
})

t.test('a policy without a quota leaves nothing to spare', async t => {
  const it = held({ partitions: 1 })
  const none = compilePolicy('none', { quota: 0, window: '1h', algorithm: 'fixed-window' }, [])
  it.spend('a', 1)
  it.partitions.write(it.partitions.find('a'), it.partitions.cells(none), none, NOW, {
    allowed: false,
    state: [NOW, 0],
    remaining: 0,
    effectiveWindow: 0,
    retryAfter: 0,
    delay: 0,
    ttl: HOUR
  })
  t.equal(it.spend('new', 1), SHARED_ROW)
})
