import t from 'tap'
import { check, run, table } from '../fixtures/storm/run.js'
import { LaterStore } from '../plugin/kit.js'

// Small ones; `npm run test:long` has the large one.
for (const [how, store] of [
  ['at once', undefined],
  ['later', new LaterStore(() => Math.floor(performance.now()))]
] as const) {
  t.test(`no place is lost and none is given twice, with a store that answers ${how}`, async t => {
    const done = await run(t, 500, store)
    t.comment(table(done))
    check(t, done)
  })
}
