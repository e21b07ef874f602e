import t from 'tap'
import { isProblem, violatedPolicies } from '../../src/client/violations.js'

t.test('a problem document is told by its media type, whatever follows it', async t => {
  for (const type of [
    'application/problem+json',
    'Application/Problem+JSON',
    'application/problem+json; charset=utf-8'
  ]) {
    t.equal(isProblem(type), true, type)
  }
  for (const type of [
    undefined,
    '',
    'application/json',
    'application/problem+jsonp',
    'text/application/problem+json'
  ]) {
    t.equal(isProblem(type), false, String(type))
  }
})

t.test('the policies that refused are named in the body', async t => {
  t.strictSame(violatedPolicies('{"violated-policies":["a","b"]}'), ['a', 'b'])
  t.strictSame(violatedPolicies('{"violated-policies":["a",1,null]}'), ['a'])
})

t.test('a body that names none names none', async t => {
  for (const body of [
    '',
    'no',
    'null',
    '1',
    '[]',
    '{}',
    '{"violated-policies":"a"}',
    '{"violated-policies":[]}',
    '{"violated-policies":[1]}'
  ]) {
    t.equal(violatedPolicies(body), undefined, body)
  }
})
