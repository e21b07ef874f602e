import t from 'tap'
import { asHtml } from '../../src/audit/as-html.js'
import { STYLE } from '../../src/audit/style.js'
import { sample } from './sample.js'

t.test('every class of the page has its looks', async t => {
  const page = asHtml(await sample({ quota: 5, window: '10s', algorithm: 'fixed-window' }))
  const names = new Set([...page.matchAll(/class="([\w -]+)"/g)].flatMap(([, names]) => names!.split(' ')))
  t.ok(names.size > 10)
  for (const name of names) t.match(STYLE, new RegExp(`\\.${name}\\b`), name)
})

t.test('every colour is one for light and one for dark', async t => {
  const colours = [...STYLE.matchAll(/--(\w+): (.*);/g)]
  t.ok(colours.length >= 8)
  for (const [, name, value] of colours) t.match(value, /^light-dark\(#\w+, #\w+\)$/, String(name))
  const used = new Set([...STYLE.matchAll(/var\(--(\w+)\)/g)].map(([, name]) => name))
  t.same(used, new Set(colours.map(([, name]) => name)))
})
