import t from 'tap'
import { byCall, byRequest, check, flood, place } from './flood/kit.js'

// Small ones; `npm run test:long` has the large one.

t.test('who has spent all stays refused while thousands of made-up addresses come', async t => {
  const terms = { strangers: 20_000, room: 1000 }
  const here = await place(t, terms.room)
  check(t, await flood(here, byCall(here), terms), terms)
  t.ok(here.store.use.evicted > 0, 'room was made')
})

t.test('as requests, too', async t => {
  const terms = { strangers: 3000, room: 300 }
  const here = await place(t, terms.room)
  check(t, await flood(here, byRequest(here), terms), terms)
})
