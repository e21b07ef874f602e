import { readFileSync, readdirSync } from 'node:fs'
import t from 'tap'
import { ids } from './ids.js'
import { notApplicable } from './not-applicable.js'

const folder = new URL('../../../test/cases/', import.meta.url)
const sources = readdirSync(folder)
  .filter(name => name.endsWith('.test.ts'))
  .map(name => readFileSync(new URL(name, folder), 'utf8'))
const tested = sources.flatMap(source =>
  [...source.matchAll(/^\s*fieldCase\(\s*'(C\d+)'/gm)].map(([, id]) => id!)
)
const excused = notApplicable.map(({ id }) => id)

t.test('every case has one test, or a reason to have none', async t => {
  const found = [...tested, ...excused].sort()
  t.strictSame(found, [...ids].sort())
  t.comment(`${tested.length} of ${ids.length} cases have a test, ${excused.length} a reason to have none`)
})

t.test('every reason says something', async t => {
  for (const { id, reason } of notApplicable) t.ok(reason.split(' ').length >= 8, id)
})
