import t from 'tap'
import { asJson } from '../../src/audit/as-json.js'
import { smallResult } from './small-result.js'

t.test(
  'a program reads target, promise, attacks, the worst window, the limiter, the fields and the verdict',
  async t => {
    const result = smallResult()
    const text = asJson(result)
    t.match(text, /^\{\n {2}"target": "http:.*\n\}\n$/s)
    const json = JSON.parse(text) as typeof result
    t.strictSame(Object.keys(json).slice(0, 7), [
      'target',
      'promise',
      'attacks',
      'worst',
      'limiter',
      'fields',
      'promiseKept'
    ])
    t.strictSame(Object.keys(json.attacks[0]!).slice(0, 5), [
      'name',
      'sent',
      'admitted',
      'mostInAnyWindow',
      'excess'
    ])
    const { requests, ...attack } = result.attacks[0]!
    t.strictSame(json, { ...result, attacks: [attack] }, `all but the ${requests.length} requests`)
  }
)
