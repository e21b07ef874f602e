import t from 'tap'
import { UNDECIDED } from '../src/decision.js'
import { compilePolicy } from '../src/policy.js'
import { remember, whoseAt, whoseIn } from '../src/whose.js'

const daily = compilePolicy('daily', '10/1d', [])
const plan = compilePolicy('plan', { quota: () => 1, window: '1m' }, [])
const places = [
  { partition: 'ip:192.0.2.1', policy: daily },
  { partition: 'user:42', policy: plan.withQuota(5) }
]

t.test('a policy has counted in its partition, whatever the quota of the request', async t => {
  const whose = whoseAt(places)
  t.equal(whose(daily), 'ip:192.0.2.1')
  t.equal(whose(plan), 'user:42')
  t.equal(whose(plan.withQuota(7)), 'user:42')
  t.equal(whose(compilePolicy('other', '1/1m', [])), undefined)
})

t.test(
  'a decision, and a copy of it, is about those it was made for; another one is about nobody',
  async t => {
    const decision = { ...UNDECIDED, limits: [] }
    t.equal(remember(decision, places), decision)
    for (const same of [decision, { ...decision }]) t.equal(whoseIn(same)(plan), 'user:42')
    t.equal(whoseIn({ ...decision, limits: [] })(plan), undefined)
    t.equal(whoseIn(UNDECIDED)(daily), undefined)
  }
)

t.test('a decision shows nothing of whom it is about', async t => {
  const decision = remember({ ...UNDECIDED, limits: [] }, places)
  t.notMatch(JSON.stringify(decision), /42|192/)
  t.strictSame(Reflect.ownKeys(decision), Reflect.ownKeys(UNDECIDED))
})
