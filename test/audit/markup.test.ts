import t from 'tap'
import { Markup, html } from '../../src/audit/markup.js'

t.test('what is put in is text, whatever it looks like', async t => {
  const bad = `<script>alert("it's")</script> & co`
  t.equal(
    html`<p title="${bad}">${bad}</p>`.text,
    '<p title="&lt;script&gt;alert(&quot;it&#39;s&quot;)&lt;/script&gt; &amp; co">' +
      '&lt;script&gt;alert(&quot;it&#39;s&quot;)&lt;/script&gt; &amp; co</p>'
  )
})

t.test('markup stays markup, one or many, and numbers are numbers', async t => {
  const items = [1, 2].map(i => html`<li>${i}</li>`)
  t.equal(html`<p>${items}</p>`.text, '<p><li>1</li>\n<li>2</li></p>')
  t.equal(html`<p>${new Markup('<hr>')}</p>`.text, '<p><hr></p>')
  t.equal(html`<p>a\\nb</p>`.text, '<p>a\\nb</p>', 'as it is written')
})
