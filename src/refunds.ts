import type { FastifyReply, FastifyRequest } from 'fastify'
import { attempt, isLater } from './later.js'
import { total } from './ledger.js'
import type { Ledger } from './ledger.js'
import type { OperatorFaults } from './operator.js'
import { show } from './options.js'
import { isUnits } from './policy-options.js'
import type { Visit } from './visit.js'

/** Sees to it that refunds are asked for when a request is over, unless it is refused. */
export function awaitRefunds(faults: OperatorFaults, request: FastifyRequest, visit: Visit): void {
  visit.whenAlive(({ ending, reply }) => {
    if (visit.refunding && !ending.over) return
    visit.refunding = true
    ending.await(() => {
      if (visit.decision.outcome !== 'refused') refundAll(faults, request, reply, visit.ledger)
    })
  })
}

/** Asks each policy of a request that is over what it gives back, once. What was settled stays as it is. */
export function refundAll(
  faults: OperatorFaults,
  request: FastifyRequest,
  reply: FastifyReply,
  ledger: Ledger
): void {
  for (const account of ledger.accounts) {
    const { policy } = account
    const open = ledger.of(policy).filter(({ closed }) => closed === false)
    if (policy.refund === undefined || open[0] !== account || account.asked) continue
    for (const each of open) each.asked = true
    const report = (error: unknown): void =>
      faults.report(request.log, `refund of policy "${policy.name}"`, error, 'nothing is given back')
    const charged = total(open.flatMap(({ charges }) => charges))
    attempt(() => {
      const back = unitsBack(policy.refund!(request, reply), charged)
      return back === 0 ? undefined : ledger.refund(open, charged - back)
    }, report)
  }
}

/** @throws TypeError for what is neither true, false, nothing nor units. */
function unitsBack(answer: unknown, charged: number): number {
  if (answer === true) return charged
  if (answer === false || answer === undefined || answer === null) return 0
  if (isUnits(answer)) return Math.min(answer, charged)
  if (isLater(answer)) answer.then(undefined, () => {}) // nobody waits for it: a rejection must not end the process
  throw new TypeError(`refund must return true, false or units, an integer of 0 or more, got ${show(answer)}`)
}
