import t from 'tap'
import { ATTACKS } from '../../src/audit/attacks.js'
import { makePlan } from '../../src/audit/plan.js'
import type { AuditPlan } from '../../src/audit/plan.js'
import { planAsJson, planAsText } from '../../src/audit/plan-text.js'
import { USUAL } from './kit.js'

const attacks = ATTACKS.filter(({ name }) => ['drained', 'parallel', 'edge-burst'].includes(name))
const plan: AuditPlan = {
  target: 'http://127.0.0.1:3000/items',
  promise: { quota: 10, window: 2, policy: 'p', source: 'fields', others: [] },
  plan: makePlan(attacks, { quota: 10, window: 2000, precision: 20 }, USUAL, {
    maxRequests: 120,
    maxTime: 60_000
  })
}

t.test('a plan tells what is sent, how long it takes, and what is left out', async t => {
  t.equal(
    planAsText(plan, (_style, text) => text),
    `http://127.0.0.1:3000/items
10 per 2s are promised by its own fields, policy "p".

attack            requests  at most
drained                 84       7s
parallel                30       3s

drained           spends all and more at once, then keeps asking for longer than
                  a window
parallel          asks for three times the quota at the same instant, on as many
                  connections as allowed

edge-burst is left out: it would be more than 120 requests in all
(--max-requests).
115 requests and 9s at most. This was a dry run: nothing was attacked.
`
  )
})

t.test('a program reads the same', async t => {
  const json = JSON.parse(planAsJson(plan)) as unknown
  t.match(json, {
    target: 'http://127.0.0.1:3000/items',
    promise: { quota: 10 },
    attacks: [
      { name: 'drained', about: attacks[0]!.about, requests: 84 },
      { name: 'parallel', requests: 30, time: 2200 }
    ],
    leftOut: [{ name: 'edge-burst' }],
    requests: 115
  })
})
