import t from 'tap'
import { asText, wrapped } from '../../src/audit/as-text.js'
import type { Paint } from '../../src/audit/as-text.js'
import { smallResult } from './small-result.js'

const plain: Paint = (_style, text) => text
const marked: Paint = (style, text) => `<${style}>${text}</${style}>`

t.test('a broken promise is shown with the attack, the times that prove it, and what fields say', async t => {
  t.equal(
    asText(smallResult(), plain),
    `http://127.0.0.1:3000/items
2 per 2s are promised by its own fields, policy "p".

attack   sent  admitted  any 2s  excess  1st second  refused after
drained     4         3       3   1.50x           3           35ms

Broken: 3 were admitted within 2s, 1.50x of the 2 promised.
drained: the first of the 3 was sent at 0.100s, the last was answered 0.025s
later.
Admitted at 0.100s 0.110s 0.120s.

It resembles a fixed window of 2 at once, 1 a second in the long run, for it
admitted 1 at the end of a window and 2 at the start of the next one.

What the fields say:
  true     Is what is left admitted? 3 times
  false    Is who waits for Retry-After admitted?
           1 of 2: told to wait 1 s, it was refused again after 1.000 s
  careful  Does no cache keep a refusal?
           1 of 1 refusals have no Cache-Control: no-store
  unseen   Does a refusal name its policy?

edge-burst was left out: it would take more than 8 s in all (--max-time).

any 2s: the most admitted in any interval of that length, wherever it starts
excess: what is sure, divided by the quota
`
  )
})

t.test('a kept promise needs no proof', async t => {
  const text = asText({ ...smallResult({ most: 2 }), notes: [] }, plain)
  t.match(text, /\nKept: no 2s is sure to have admitted more than 2 of 2\.\n/)
  t.notMatch(text, 'Admitted at')
  t.notMatch(text, 'left out')
})

t.test('what is not sure is shown as a range, and explained', async t => {
  const { attacks, ...rest } = smallResult({ most: 2 })
  const text = asText({ ...rest, attacks: [{ ...attacks[0]!, mostPossible: 4 }] }, plain)
  t.match(text, /\ndrained +3 +2 +2-4 +1\.00x /)
  t.match(text, 'from what is sure, whenever the server counted, to what is possible')
})

t.test('nothing refused, nothing admitted and no known limiter can be told', async t => {
  const { attacks, worst, ...rest } = smallResult({ most: 2 })
  const never = { ...attacks[0]!, firstRefusalAfter: null }
  const limiter = {
    kind: 'none',
    title: 'no limiter',
    capacity: null,
    refill: null,
    because: 'nothing was refused'
  } as const
  const text = asText({ ...rest, attacks: [never], worst: { ...worst, window: null }, limiter }, plain)
  t.match(text, /never\n/)
  t.match(text, '\nIt resembles no limiter: nothing was refused.\n')
  t.notMatch(text, 'the first of')
})

t.test('it fits 80 columns, however long the words are and however much was admitted', async t => {
  const { attacks, worst, ...rest } = smallResult({ most: 50 })
  const attack = {
    ...attacks[0]!,
    name: 'sub-window-burst',
    sent: 99_999,
    admitted: 99_999,
    firstSecond: 99_999
  }
  const text = asText({ ...rest, attacks: [attack], worst }, plain)
  for (const line of text.split('\n')) t.ok(line.length <= 80, line)
  t.match(text, /0\.490s and 10\s+more\.\n/)
  t.strictSame(
    wrapped('a '.repeat(60).trim(), '  ').map(line => line.length),
    [79, 43]
  )
})

t.test('colours say what is good and what is bad', async t => {
  const text = asText(smallResult(), marked)
  t.match(text, /<red>drained .*<\/red>/)
  t.match(text, '<red>Broken: 3')
  t.match(text, '<green>true   </green>  Is what')
  t.match(text, '<red>false  </red>')
  t.match(text, '<yellow>careful</yellow>')
  t.match(asText(smallResult({ most: 2 }), marked), '<green>Kept')
})
