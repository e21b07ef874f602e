import t from 'tap'
import { asHtml } from '../../src/audit/as-html.js'
import type { AuditResult } from '../../src/audit/result.js'
import { sample } from './sample.js'

const broken = await sample({ quota: 5, window: '10s', algorithm: 'fixed-window' })
const kept = await sample({ quota: 5, window: '10s' })

/** What a reader sees, without the drawing. */
function textOf(page: string): string {
  const body = page.slice(page.indexOf('<body>'))
  return body
    .replaceAll(/<svg[\s\S]*?<\/svg>/g, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
}

t.test('a broken promise is told in the first line, and what proves it', async t => {
  const text = textOf(asHtml(broken))
  t.match(text, /Broken: \d+ were admitted within 10s, (1\.\d0|2\.00)x of the 5 promised\./)
  t.match(text, /Looks like a fixed window/)
  t.match(text, 'What to do Windows that start anew')
  t.match(text, `The ${broken.worst.evidence.length} admitted requests that prove it`)
})

t.test('a kept promise is told as well, and there is nothing to do', async t => {
  const text = textOf(asHtml(kept))
  t.match(text, /Kept: no 10s is sure to have admitted more than 5 of 5/)
  t.notMatch(text, 'What to do')
})

t.test('each attack has a row and a drawing', async t => {
  const page = asHtml(broken)
  for (const { name, sent } of broken.attacks) t.match(textOf(page), `${name} ${sent}`)
  t.equal(page.split('<svg').length - 1, broken.attacks.length + 1)
  t.equal(page.split('class="over"').length - 1, broken.attacks.filter(({ excess }) => excess > 1).length)
})

t.test('the fields are shown with what is true about them', async t => {
  const { fields } = broken
  const lies = asHtml({
    ...broken,
    fields: {
      ...fields,
      checks: fields.checks.map(check => ({ ...check, answer: 'false', seen: 7, wrong: 3 }))
    }
  })
  t.match(textOf(lies), /false .*\? 3 of 7: /)
  t.match(textOf(asHtml(broken)), `ratelimit-policy ${`"sample";q=5;w=10`.replaceAll('"', '&quot;')}`)
  t.match(textOf(asHtml({ ...broken, fields: { seen: [], checks: [] } })), 'No field about limits was seen.')
  const seen = [{ name: 'x-limit', admitted: null, refused: null }]
  t.match(textOf(asHtml({ ...broken, fields: { ...fields, seen } })), 'x-limit – –')
})

t.test('what was announced and not attacked is named, and notes are', async t => {
  const more: AuditResult = {
    ...kept,
    promise: {
      ...kept.promise,
      others: [
        { policy: 'daily', unit: 'requests', quota: 100, window: 86_400 },
        { policy: 'places', unit: 'requests', quota: null, window: null }
      ]
    },
    notes: ['The machine was slow.']
  }
  const text = textOf(asHtml(more))
  t.match(text, /daily : 100 requests per 1d .*places : \? requests /)
  t.match(text, 'How it was measured The machine was slow.')
})

t.test('a page without a worst attack has the others', async t => {
  const text = textOf(asHtml({ ...kept, worst: { ...kept.worst, name: 'none of them' } }))
  t.notMatch(text, 'The worst window')
  t.match(text, 'The attacks')
})

t.test('an audit in which nothing was admitted has a page', async t => {
  const none: AuditResult = {
    ...kept,
    worst: { ...kept.worst, mostPossible: 7, window: null, evidence: [] },
    attacks: kept.attacks.map(attack => ({ ...attack, firstRefusalAfter: null, worstWindow: null }))
  }
  const text = textOf(asHtml(none))
  t.match(text, 'never')
  t.match(text, '5 to 7')
  t.notMatch(text, 'that prove it')
})

t.test('the page needs nothing from anywhere, and nothing of the API gets into it but as text', async t => {
  const page = asHtml({ ...broken, target: 'http://127.0.0.1/<script>alert(1)</script>' })
  t.notMatch(page, '<script')
  t.notMatch(page, /(src|href)=/)
  t.notMatch(page, /url\(|@import/)
})
