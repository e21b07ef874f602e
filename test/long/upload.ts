import t from 'tap'
import { checkCount, checkMemory, run, table } from '../fixtures/upload/run.js'

t.setTimeout(600_000)

t.test('a very long upload is charged to the byte, and not kept', async t => {
  const done = await run(t, Number(process.env['UPLOAD_BYTES'] ?? 200_000_001))
  t.comment(table(done))
  checkCount(t, done)
  checkMemory(t, done)
})
