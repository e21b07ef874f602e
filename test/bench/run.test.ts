import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { hasRedis } from '../redis/servers.js'
import { here } from './here.js'
import { inProcesses } from './processes.js'
import { rows } from './rows/index.js'
import { run } from './run.js'
import type { Terms } from './run.js'
import type { Hire } from './worker.js'

/** As little as there can be: it says nothing of speed, but each row has its numbers. */
const TINY: Terms['effort'] = { warmUp: 0, slice: 64, batch: 1, watch: 300, partitions: 500 }

// As in processes of the bench.
setFlagsFromString('--expose-gc')
globalThis.gc = runInNewContext('gc') as NonNullable<typeof globalThis.gc>

t.test('every row yields numbers', { timeout: 100_000 }, async t => {
  const redis = hasRedis()
  const told: string[] = []
  const report = await run(
    { rows, rounds: 2, compare: undefined },
    { effort: TINY, hire: here, tell: line => told.push(line), owner: t }
  )
  t.equal(report.results.length, rows.length)
  for (const { name, measure, ours, rival, ratio, verdict } of report.results) {
    const row = rows.find(row => row.measure === measure && row.name === name)
    if (!redis && row?.redis === true) {
      t.equal(verdict, 'skipped', `${name}: ${measure}`)
      continue
    }
    for (const figure of [ours, rival, ratio]) t.ok(Number.isFinite(figure), `${name}: ${measure}: ${figure}`)
  }
  t.strictSame(
    report.twins.map(({ stage }) => stage),
    redis ? ['loops', 'redis', 'redis', 'http', 'http'] : ['loops', 'http', 'http']
  )
  t.match(told, [/^memory: 4 to be measured$/, /^loops: /, /^pauses: /])
  t.equal(report.notes.length, redis ? 0 : 1)
})

t.test('no two rows say the same, and each has a stage that measures it', async t => {
  const said = rows.map(({ name, measure }) => `${name} ${measure}`)
  t.strictSame([...new Set(said)], said)
  t.strictSame(
    [...new Set(rows.map(({ name }) => name))],
    Array.from({ length: 12 }, (_, i) => `P${i + 1}`)
  )
})

t.test('what is measured has a process of its own, which ends with the run', async t => {
  const pids: number[] = []
  const hire: Hire = async (...work) => {
    const worker = await inProcesses(...work)
    pids.push(worker.begun['pid'] ?? NaN)
    return worker
  }
  const some = rows.filter(({ name }) => name === 'P4')
  const report = await run(
    { rows: some, rounds: 2, compare: undefined },
    { effort: TINY, hire, tell: () => {}, owner: t }
  )
  t.match(report.results, [{ name: 'P4', ratio: Number }])
  t.equal(new Set(pids).size, 4)
  for (const pid of pids) t.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
})

t.test('a process that is slow by itself gives way to another one', async t => {
  const effort = { ...TINY, rounds: 1, redis: undefined }
  const module = new URL('fixtures/slow-at-first.js', import.meta.url)
  const variant = join(t.testdir(), 'begun')
  const worker = await inProcesses(module, { name: 'slow', variant, root: '', effort }, 'all')
  t.match(worker.begun, { slow: 0, begun: 2 })
  await worker.end()
  const always = await inProcesses(module, { name: 'slow', variant: '', root: '', effort }, 'all')
  t.match(always.begun, { slow: 1 }, 'but not for ever')
  await always.end()
})

t.test('a process that ends before it has answered is told by its name', async t => {
  const effort = { ...TINY, rounds: 1, redis: undefined }
  const task = { name: 'nobody', variant: 'nobody', root: 'file:///nowhere/', effort }
  const module = new URL('loops/nothing-here.js', import.meta.url)
  await t.rejects(inProcesses(module, task, 'all'), {
    message: 'nobody has ended with 1 instead of an answer'
  })
})
