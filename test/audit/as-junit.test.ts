import t from 'tap'
import { asJUnit } from '../../src/audit/as-junit.js'
import { smallResult } from './small-result.js'

t.test('a build server reads a test case for each attack, and one for each field', async t => {
  t.equal(
    asJUnit(smallResult(), 'fields'),
    `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="fastify-quota audit" tests="5" failures="2" errors="0" skipped="1" time="2.5">
  <testsuite name="http://127.0.0.1:3000/items" tests="5" failures="2" errors="0" skipped="1" time="2.5" timestamp="2026-11-30T12:00:00.000Z">
    <testcase classname="audit.attacks" name="drained" time="0.035">
      <failure message="3 admitted within 2s, 1.50x of the 2 promised">drained spends all and more at once, then keeps asking for longer than a window. 3 admitted within 2s, 1.50x of the 2 promised.</failure>
    </testcase>
    <testcase classname="audit.fields" name="units-left" time="0.000"/>
    <testcase classname="audit.fields" name="retry-after" time="0.000">
      <failure message="told to wait 1 s, it was refused again after 1.000 s">Is who waits for Retry-After admitted? false: told to wait 1 s, it was refused again after 1.000 s</failure>
    </testcase>
    <testcase classname="audit.fields" name="not-cacheable" time="0.000">
      <system-out>Does no cache keep a refusal? careful: 1 of 1 refusals have no Cache-Control: no-store</system-out>
    </testcase>
    <testcase classname="audit.fields" name="body-names-policy" time="0.000">
      <skipped message="nothing to judge by"/>
    </testcase>
    <system-out>2 per 2s are promised by its own fields, policy &quot;p&quot;. Broken: 3 were admitted within 2s, 1.50x of the 2 promised.</system-out>
  </testsuite>
</testsuites>
`
  )
})

t.test('false fields are failures only where they are to be', async t => {
  const text = asJUnit(smallResult({ most: 2 }), 'promise')
  t.match(text, 'failures="0"')
  t.match(text, '<system-out>Is who waits for Retry-After admitted? false: ')
})

t.test('what XML cannot hold is not written', async t => {
  const text = asJUnit({ ...smallResult(), target: 'http://localhost/?a=<b>&c="\u0000\ud800"' }, 'promise')
  t.match(text, '<testsuite name="http://localhost/?a=&lt;b&gt;&amp;c=&quot;\ufffd\ufffd&quot;"')
})
