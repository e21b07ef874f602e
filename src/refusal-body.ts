import { STATUS_CODES } from 'node:http'
import type { FastifyRequest } from 'fastify'
import { NEVER } from './algorithm.js'
import { visible } from './announced.js'
import { refusing } from './decision.js'
import type { Decision } from './decision.js'
import { isLater } from './later.js'
import type { Later } from './later.js'
import { show } from './options.js'
import type { OperatorFaults } from './operator.js'
import type { QuotaPolicy } from './policy.js'
import { PROBLEM_MEDIA_TYPE, problem, refusalDetail } from './problem.js'
import type { Problem } from './problem.js'
import type { Wire } from './response.js'
import type { Settings } from './settings.js'

/** What a refusal says, and the status it goes with. */
export interface RefusalBody {
  readonly status: number
  readonly text: string
  readonly bytes: Buffer
}

/** Makes the body of a refusal; `wait`: the seconds of its `Retry-After`, if it has one. Never throws. */
export type MakeBody = (decision: Decision, wait: number | undefined, request: FastifyRequest) => RefusalBody

/** How refusals are told: by the draft's problem types, by the operator's function, or as Fastify tells its own errors. */
export function refusalBody(
  wanted: Settings['problem'],
  faults: OperatorFaults
): Pick<Wire, 'body' | 'bodyType'> {
  if (wanted === false) {
    return { bodyType: 'application/json; charset=utf-8', body: prepared(fastifyBody) }
  }
  if (wanted === undefined) {
    return { bodyType: PROBLEM_MEDIA_TYPE, body: prepared(JSON.stringify) }
  }
  return {
    bodyType: PROBLEM_MEDIA_TYPE,
    body: (decision, wait, request) => {
      const draft = draftProblem(decision, wait)
      try {
        return bodyOf(draft, textOf(wanted(decision, request), draft.status))
      } catch (error) {
        faults.report(request.log, 'problem', error, "the body is the draft's")
        return bodyOf(draft, JSON.stringify(draft))
      }
    }
  }
}

/** Bodies that are remembered of the same policies; they differ by the wait. */
const REMEMBERED = 1000

/** What is remembered of the policies that lead here, and where a further one leads. */
class Branch {
  readonly bodies = new Map<number | undefined, RefusalBody>()
  readonly #further = new WeakMap<QuotaPolicy, Branch>()

  to(policy: QuotaPolicy): Branch {
    const known = this.#further.get(policy)
    if (known !== undefined) return known
    const branch = new Branch()
    this.#further.set(policy, branch)
    return branch
  }
}

/** Who presses on gets the same answer all the time: that to a request that costs one unit is made once. */
function prepared(textOf: (draft: Problem) => string): MakeBody {
  const root = new Branch()
  const make = (decision: Decision, wait: number | undefined): RefusalBody => {
    const draft = draftProblem(decision, wait)
    return bodyOf(draft, textOf(draft))
  }
  return (decision, wait) => {
    const bodies = branchOf(root, decision)?.bodies
    if (bodies === undefined) return make(decision, wait)
    const before = bodies.get(wait)
    if (before !== undefined) return before
    if (bodies.size >= REMEMBERED) bodies.clear()
    const body = make(decision, wait)
    bodies.set(wait, body)
    return body
  }
}

/** Where the policies lead that have refused one unit each, which will be there again. Plans have too many quotas for that. */
function branchOf(root: Branch, { limits }: Decision): Branch | undefined {
  let branch = root
  for (const { allowed, policy, units, retryAfter } of limits) {
    if (allowed) continue
    if (units !== 1 || retryAfter === NEVER || policy.quotaOf !== undefined) return undefined
    branch = branch.to(policy)
  }
  return branch === root ? undefined : branch
}

const bodyOf = ({ status }: Problem, text: string): RefusalBody => ({
  status,
  text,
  bytes: Buffer.from(text)
})

function fastifyBody({ status, detail }: Problem): string {
  return JSON.stringify({ statusCode: status, error: STATUS_CODES[status], message: detail })
}

/** RFC 9457 §3.1.2: a `status` in the body is the response's. */
function textOf(body: Later<object>, status: number): string {
  if (isLater(body)) {
    body.then(undefined, () => {}) // it is refused for being a promise, whatever comes of it
    throw new TypeError('problem must return an object, got a promise')
  }
  const text = JSON.stringify(body) as string | undefined
  if (typeof body !== 'object' || text?.startsWith('{') !== true) {
    throw new TypeError(`problem must return an object, got ${show(body)}`)
  }
  const sent = JSON.parse(text) as { readonly status?: unknown }
  if (sent.status !== undefined && sent.status !== status) {
    throw new TypeError(`problem must return the status of the response, ${status}, got ${show(sent.status)}`)
  }
  return text
}

function draftProblem(decision: Decision, wait: number | undefined): Problem {
  const limits = refusing(decision)
  const status = limits.some(({ policy }) => policy.status === 429) ? 429 : 503
  const shown = visible(decision)
  return problem({
    type: status === 429 ? 'quota-exceeded' : 'temporary-reduced-capacity',
    status,
    detail: refusalDetail({
      policies: shown.map(({ policy, units }) => ({
        name: policy.name,
        quota: policy.capacity,
        unit: policy.unit,
        window: policy.announcedWindow === 0 ? undefined : policy.announcedWindow * 1000,
        cost: units,
        reduced: policy.reduction?.reason
      })),
      retryAfter: wait,
      never: limits.some(limit => limit.retryAfter === NEVER)
    }),
    violatedPolicies: shown.map(({ policy }) => policy.name)
  })
}
