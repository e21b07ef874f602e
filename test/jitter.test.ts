import t from 'tap'
import { createJitter } from '../src/jitter.js'
import { compilePolicy } from '../src/policy.js'

const minute = compilePolicy('minute', '10/1m', [])
const hour = compilePolicy('hour', '10/1h', [])
const client =
  (i: number): (() => string) =>
  () =>
    `ip:198.51.100.${i}`

t.test('without jitter no wait is lengthened, and nobody is asked who waits', async t => {
  const asked = t.captureFn(() => 'ip:192.0.2.1')
  t.equal(createJitter(0)(minute, asked), 0)
  t.strictSame(asked.calls, [])
})

t.test('a client waits for a policy longer by always the same, whatever its quota', async t => {
  const jitter = createJitter(2000)
  const again = createJitter(2000)
  for (let i = 0; i < 20; i++) {
    t.equal(jitter(minute, client(i)), jitter(minute, client(i)))
    t.equal(jitter(minute, client(i)), again(minute, client(i)), 'another process spreads as this one')
    t.equal(jitter(minute, client(i)), jitter(compilePolicy('minute', '99/1m', []), client(i)))
  }
})

t.test('jitter is whole milliseconds from 0 to its most, and reaches both ends', async t => {
  const seen = new Set(Array.from({ length: 200 }, (_, i) => createJitter(4)(minute, client(i))))
  t.strictSame(
    [...seen].toSorted((a, b) => a - b),
    [0, 1, 2, 3, 4]
  )
})

t.test('clients and policies are spread evenly', async t => {
  const jitter = createJitter(9999)
  const clients = Array.from({ length: 1000 }, (_, i) => jitter(minute, client(i)))
  t.ok(new Set(clients).size > 900)
  const tenths = Array.from(
    { length: 10 },
    (_, i) => clients.filter(ms => Math.floor(ms / 1000) === i).length
  )
  t.ok(
    tenths.every(count => count > 60 && count < 140),
    String(tenths)
  )
  const differing = clients.filter((ms, i) => ms !== jitter(hour, client(i))).length
  t.ok(differing > 990)
})

t.test('who is not known waits no longer', async t => {
  t.equal(
    createJitter(2000)(minute, () => undefined),
    0
  )
})
