import { readFileSync } from 'node:fs'
import t from 'tap'
import { hastened, minutesOf } from './pace.js'
import { ALERTS } from './watching.js'

t.test('ranges, offsets and what rules wait for become shorter by one factor', async t => {
  t.equal(hastened('rate(a[5m]) unless b offset 30s', 500), 'rate(a[2500ms]) unless b offset 250ms')
  t.equal(
    hastened('    for: 1h30m\n    keep_firing_for: 10m', 100),
    '    for: 9000ms\n    keep_firing_for: 1000ms'
  )
  t.equal(hastened('max_over_time(a[1h:5m])', 1), 'max_over_time(a[60ms:5ms])')
})

t.test('at its own pace a rule is the same', async t => {
  t.equal(minutesOf('1h30m15s500ms'), 90 + 15.5 / 60)
  t.equal(hastened('for: 5m', 60_000), 'for: 300000ms')
})

t.test('what only looks like a duration stays', async t => {
  for (const text of [
    '> 0.025',
    'le="5m"',
    'summary: waits for: a while',
    'more than 80 % in 5m',
    'perform: 5m'
  ])
    t.equal(hastened(text, 100), text)
})

t.test('no duration of the alerts is left as it was, and nothing but durations is changed', async t => {
  const rules = readFileSync(ALERTS, 'utf8')
  const hurried = hastened(rules, 500)
  const apart = (text: string): readonly string[] => text.split(/\b\d+m?s?(?=\b)/)
  t.notMatch(hurried, /(\[|offset |for: )\d+[smhd]\b/)
  t.strictSame(apart(hurried), apart(rules))
})
