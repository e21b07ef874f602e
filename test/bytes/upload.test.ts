import t from 'tap'
import { checkCount, run } from '../fixtures/upload/run.js'

// A small one; `npm run test:long` has the large one.
t.test('a long upload of unknown length is charged to the byte', async t =>
  checkCount(t, await run(t, 20_000_001))
)
