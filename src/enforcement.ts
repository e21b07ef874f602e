import { channel } from 'node:diagnostics_channel'
import type { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { decideBytes, decideStage, giveBack } from './charging.js'
import { UNDECIDED, join } from './decision.js'
import type { Decision } from './decision.js'
import { asError } from './errors.js'
import { checkForwarding } from './forwarded.js'
import { isLater, whenKnown } from './later.js'
import type { Later } from './later.js'
import type { Leases } from './leases.js'
import { linger } from './lingering.js'
import { MeteredBody } from './metering.js'
import { OwnOccasion } from './occasion.js'
import type { Plan, Stage } from './plan.js'
import { awaitRefunds } from './refunds.js'
import { RefusalLog } from './refusal-log.js'
import { correctFields, sendRefusal, writeFields } from './response.js'
import type { Wire } from './response.js'
import type { Settings } from './settings.js'
import { DECISION_CHANNEL } from './store.js'
import type { Services, Visit } from './visit.js'

/** Goes on with a request; an error ends it. */
export type Proceed = (error?: Error) => void

/** Milliseconds after which a request goes on; 0: now; {@link ANSWERED}: it does not. */
export type Turn = number

/** The request goes no further, for it is answered or nobody is there. */
const ANSWERED = -1

/** What happens to a request with quota at each hook. */
export class Enforcement {
  readonly #services: Services
  readonly #leases: Leases
  readonly #wire: Wire
  readonly #onRefused: Settings['onRefused']
  readonly #refusals: RefusalLog | undefined
  readonly #decisions = channel(DECISION_CHANNEL)
  #forwardingSeen = false
  #lateAsked = -Infinity

  constructor(
    services: Services,
    leases: Leases,
    wire: Wire,
    { onRefused, logRefusals }: Pick<Settings, 'onRefused' | 'logRefusals'>
  ) {
    this.#services = services
    this.#leases = leases
    this.#wire = wire
    this.#onRefused = onRefused
    this.#refusals = logRefusals === false ? undefined : new RefusalLog(logRefusals)
  }

  /** The request comes in, on a route with a plan. */
  arrive(request: FastifyRequest, reply: FastifyReply, visit: Visit, plan: Plan): void {
    visit.plan = plan
    visit.meet(reply)
    void request.socket.remoteAddress // which the socket remembers from now on, when the client has left too
    if (!this.#forwardingSeen) this.#forwardingSeen = checkForwarding(request, this.#services.warnings)
  }

  /** Decides the stage of a hook, once, and answers a request that is refused. Pass what is not 0 to {@link start}. */
  enforce(index: number, request: FastifyRequest, reply: FastifyReply, visit: Visit): Later<Turn> {
    if (index < visit.nextStage) return 0
    visit.nextStage = index + 1
    const stage = visit.plan?.stages[index]
    if (stage === undefined) return 0
    try {
      return this.#turn(stage, request, reply, visit)
    } catch (error) {
      return Promise.reject(asError(error))
    }
  }

  /** The body as its parser sees it: counted on the way, if its length is not known. */
  meter(request: FastifyRequest, reply: FastifyReply, visit: Visit, body: Readable): Readable {
    if (visit.metered.length === 0) return body
    const charge = (bytes: number): Later<boolean> =>
      whenKnown(decideBytes(this.#services, visit, bytes), decision => {
        if (decision.outcome === 'refused') return this.#breakOff(request, reply, visit, decision)
        visit.refresh(decision.limits)
        this.#shadow(visit, decision, request)
        return true
      })
    return new MeteredBody(body, charge)
  }

  /** The response goes out: returns its payload. */
  leave(reply: FastifyReply, visit: Visit, payload: unknown): unknown {
    if (visit.stale && visit.decision.outcome === 'allowed') this.#write(reply, visit)
    this.#checkIdentity(visit)
    return correctFields(reply, visit.sheet, payload)
  }

  /** Tells watchers of a decision. */
  publish(decision: Decision, request: FastifyRequest | undefined): void {
    if (!this.#decisions.hasSubscribers) return
    this.#decisions.publish({ decision, request, store: this.#services.store })
  }

  /** A body that grew too long for a policy in shadow mode is told, once. */
  #shadow(visit: Visit, { shadow }: Decision, request: FastifyRequest): void {
    const refusing = new Set(shadow.filter(({ wouldRefuse }) => wouldRefuse).map(({ policy }) => policy))
    const before = visit.decision
    const news = before.shadow
      .filter(({ policy, wouldRefuse }) => !wouldRefuse && refusing.has(policy))
      .map(({ policy }) => ({ policy, wouldRefuse: true }))
    if (news.length === 0) return
    visit.decision = {
      ...before,
      shadow: before.shadow.map(({ policy, wouldRefuse }) => ({
        policy,
        wouldRefuse: wouldRefuse || refusing.has(policy)
      }))
    }
    this.publish({ ...UNDECIDED, shadow: news, source: before.source }, request)
  }

  #turn(stage: Stage, request: FastifyRequest, reply: FastifyReply, visit: Visit): Later<Turn> {
    // Armed before anything is charged: a release must not depend on who is told first.
    if (stage.ends && visit.life.ending.over) return abandon(reply)
    const decision = decideStage(this.#services, request, visit, stage)
    if (!isLater(decision)) return this.#conclude(decision, stage, request, reply, visit)
    return decision.then(known => this.#conclude(known, stage, request, reply, visit))
  }

  #conclude(
    decision: Decision,
    stage: Stage,
    request: FastifyRequest,
    reply: FastifyReply,
    visit: Visit
  ): Later<Turn> {
    visit.decision = join(visit.decision, decision)
    this.publish(decision, request)
    if (decision.outcome === 'refused') {
      return whenKnown(giveBack(visit), () => {
        this.#refuse(request, reply, visit)
        return ANSWERED
      })
    }
    this.#write(reply, visit)
    if (stage.ends && !this.#awaitEnd(request, visit)) return abandon(reply)
    return longestDelay(decision)
  }

  /** Refuses the rest of a body: the answer is a refusal, if there is somebody to answer and nobody has begun to. */
  #breakOff(request: FastifyRequest, reply: FastifyReply, visit: Visit, decision: Decision): Later<false> {
    if (visit.decision.outcome === 'refused') return false // of batches that arrived together, by the first
    this.publish(decision, request)
    if (visit.life.ending.over) return false
    linger(request, reply)
    if (reply.sent || reply.raw.headersSent) return false
    visit.decision = join(withoutMetered(visit.decision), decision)
    return whenKnown(giveBack(visit), () => {
      this.#refuse(request, reply, visit)
      return false as const
    })
  }

  /** Arranges what is due when the request is over; `false`: it is over already. */
  #awaitEnd(request: FastifyRequest, visit: Visit): boolean {
    const { ending } = visit.life
    this.#leases.hold(visit.ledger, visit.ledger.accounts, told => visit.whenAlive(told))
    awaitRefunds(this.#services.faults, request, visit)
    return !ending.over
  }

  #write(reply: FastifyReply, visit: Visit): void {
    visit.stale = false
    writeFields(this.#wire, reply, visit.sheet, visit.decision, new OwnOccasion(visit))
  }

  #refuse(request: FastifyRequest, reply: FastifyReply, visit: Visit): void {
    const { sheet, decision } = visit
    this.tell(decision, request)
    sendRefusal(this.#wire, reply, sheet, decision, new OwnOccasion(visit))
  }

  /** Tells the operator of a refusal. */
  tell(decision: Decision, request: FastifyRequest): void {
    this.#refusals?.tell(decision, request.log)
    if (this.#onRefused === undefined) return
    const report = (error: unknown): void =>
      this.#services.faults.report(request.log, 'onRefused', error, 'nobody was told')
    try {
      const told: unknown = this.#onRefused(decision, request)
      if (isLater(told)) told.then(undefined, report)
    } catch (error) {
      report(error)
    }
  }

  /** At most once a second: an app may have many nameless requests, and they are no mistake. */
  #checkIdentity({ decision, parts }: Visit): void {
    const { lateIdentity } = this.#services.warnings
    if (lateIdentity.emitted || decision.outcome !== 'allowed' || !parts.nameless) return
    const now = performance.now()
    if (now - this.#lateAsked < 1000) return
    this.#lateAsked = now
    void parts.late().then(name => name !== undefined && lateIdentity(name))
  }
}

/** A decision without the policies that count the body as it arrives. */
const withoutMetered = (decision: Decision): Decision => ({
  ...decision,
  limits: decision.limits.filter(({ policy }) => !policy.metered)
})

function longestDelay({ limits }: Decision): number {
  let longest = 0
  for (const { delay } of limits) if (delay > longest) longest = delay
  return longest
}

/** Goes on with a request when it is its turn. Who leaves the queue keeps the place in it. */
export function start(turn: Later<Turn>, visit: Visit, proceed: Proceed): void {
  if (isLater(turn)) {
    turn.then(
      known => start(known, visit, proceed),
      error => proceed(asError(error))
    )
    return
  }
  if (turn === ANSWERED) return
  if (turn === 0) return proceed()
  const timer = setTimeout(proceed, turn)
  visit.life.ending.await(() => clearTimeout(timer))
}

/** Nobody is there to answer: the request goes no further. */
function abandon(reply: FastifyReply): Turn {
  reply.hijack()
  return ANSWERED
}
