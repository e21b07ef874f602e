import fc from 'fast-check'
import t from 'tap'
import { policyName } from '../../src/migrate/names.js'

t.test('a plain route or group is named after itself', async t => {
  t.equal(policyName('GET /'), 'GET')
  t.equal(policyName('POST /auth/login'), 'POST-auth-login')
  t.equal(policyName('group otp'), 'group-otp')
})

t.test('what letters and digits do not tell is told by a digest', async t => {
  t.match(policyName('GET /items/:id'), /^GET-items-id\.[\da-f]{8}$/)
  t.match(policyName('GET,HEAD /items'), /^GET-HEAD-items\.[\da-f]{8}$/)
  t.match(policyName('GET /*'), /^GET\.[\da-f]{8}$/)
  t.match(policyName('group été/1'), /^group-t-1\.[\da-f]{8}$/)
  t.match(policyName(`GET /${'a'.repeat(90)}`), /^GET-a{44}\.[\da-f]{8}$/)
})

t.test('every text has a name that policies may have, and no two texts the same', async t => {
  const method = fc.constantFrom('GET', 'POST', 'M-SEARCH', 'GET,HEAD')
  const path = fc
    .array(fc.constantFrom('/', 'a', 'b', '-', '.', ':', '*', '_', '1'))
    .map(parts => `/${parts.join('')}`)
  const group = fc.string().map(name => `group ${name}`)
  const text = fc.oneof(
    fc.tuple(method, path).map(parts => parts.join(' ')),
    group
  )
  fc.assert(
    fc.property(text, text, (one, other) => {
      t.match(policyName(one), /^[A-Za-z][A-Za-z0-9._-]{0,63}$/)
      return one === other || policyName(one) !== policyName(other)
    }),
    { numRuns: 500 }
  )
})
