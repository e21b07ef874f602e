import t from 'tap'
import { absent, readDuration, readInteger, readTime, required } from '../../src/simulate/values.js'

const refuse = (message: string): never => {
  throw new Error(message)
}

t.test('an integer is written in digits, and nothing else', async t => {
  t.equal(readInteger(refuse, '--n', '10', 1, 20), 10)
  for (const text of ['0', '21', '-1', '1e1', '0x10', '1.0', ' 10', '', '99999999999999999']) {
    t.throws(
      () => readInteger(refuse, '--n', text, 1, 20),
      /^--n must be an integer from 1 to 20, got /,
      text
    )
  }
})

t.test('a duration is whole seconds, or has a unit', async t => {
  t.equal(readDuration(refuse, '--d', '60'), 60_000)
  t.equal(readDuration(refuse, '--d', '1500ms'), 1500)
  for (const text of ['0', '0s', '-1', '1 s', 's', '']) {
    t.throws(() => readDuration(refuse, '--d', text), /^--d must be whole seconds or a duration /, text)
  }
})

t.test('a time is a duration from 0 on', async t => {
  t.equal(readTime(refuse, '--at', '59s'), 59_000)
  for (const text of ['0', '0s', '0ms', '00h']) t.equal(readTime(refuse, '--at', text), 0)
  t.throws(() => readTime(refuse, '--at', '-0'), /^--at must be whole seconds or a duration /)
})

t.test('an option that is needed is asked for, and one without its partner is refused', async t => {
  t.equal(required(refuse, '1', '--a', 'one'), '1')
  t.throws(() => required(refuse, undefined, '--a', 'one'), { message: '--a is required: one' })
  absent(refuse, { rate: '5/s' }, ['for', 'at'], '--b')
  t.throws(() => absent(refuse, { at: ['1s', '2s'] }, ['for', 'at'], '--b'), {
    message: '--at goes with --b, got "1s,2s" alone'
  })
})
