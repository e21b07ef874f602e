import t from 'tap'
import { DRAFT_11 } from '../src/wire-names.js'

t.test('no two parameters of a field share a name, nor do the planned ones', async t => {
  for (const names of [DRAFT_11.parameter, DRAFT_11.planned].map(table => Object.values(table))) {
    t.equal(new Set(names).size, names.length)
  }
})

t.test(
  'names are the keys of structured fields, and fields are named in lower case, as Node writes them',
  async t => {
    for (const name of [...Object.values(DRAFT_11.parameter), ...Object.values(DRAFT_11.planned)]) {
      t.match(name, /^[a-z]+$/)
    }
    for (const name of Object.values(DRAFT_11.field)) t.match(name, /^[a-z-]+$/)
  }
)
