import t from 'tap'
import { check, run, table } from '../fixtures/storm/run.js'
import { LaterStore } from '../plugin/kit.js'

t.setTimeout(600_000)

for (const [how, store] of [
  ['at once', undefined],
  ['later', new LaterStore(() => Math.floor(performance.now()))]
] as const) {
  t.test(`no place is lost and none is given twice, with a store that answers ${how}`, async t => {
    const done = await run(t, Number(process.env['STORM_REQUESTS'] ?? 10_000), store)
    t.comment(table(done))
    check(t, done)
  })
}
