import { STATUS_CODES } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { refusing } from '../decision.js'
import type { Decision } from '../decision.js'
import { wholeSeconds } from '../fields.js'
import type { OperatorFaults } from '../operator.js'
import { show } from '../options.js'
import type { ServiceLimit } from '../store.js'
import { inWords } from './duration.js'
import type { Limit, RefusalContext } from './theirs.js'

/** Refusals on their way, which `errorResponseBuilder` words and `addHeaders` thins out. */
export class Answers {
  readonly #limitOf: (request: FastifyRequest) => Limit
  readonly #faults: OperatorFaults
  readonly #refused = new WeakMap<FastifyRequest, Decision>()

  constructor(limitOf: (request: FastifyRequest) => Limit, faults: OperatorFaults) {
    this.#limitOf = limitOf
    this.#faults = faults
  }

  /** A request is refused. */
  refuse(request: FastifyRequest, decision: Decision): void {
    this.#refused.set(request, decision)
  }

  /** The response goes out: returns its payload. */
  send(request: FastifyRequest, reply: FastifyReply, payload: unknown): unknown {
    const limit = this.#limitOf(request)
    const decision = this.#refused.get(request)
    if (decision === undefined) {
      if (limit.hidden.length > 0 && request.quota.limits.length > 0) hide(reply, limit.hidden)
      return payload
    }
    this.#refused.delete(request)
    hide(reply, limit.hiddenOnRefusal)
    const [longest] = refusing(decision).toSorted((a, b) => waitOf(b) - waitOf(a))
    if (limit.errorResponseBuilder === undefined || longest === undefined) return payload
    try {
      return write(reply, limit.errorResponseBuilder(request, contextOf(longest)))
    } catch (error) {
      this.#faults.report(request.log, 'errorResponseBuilder', error, "the body is the plugin's own")
      return payload
    }
  }
}

/** Milliseconds; of a quota of nothing, its window. */
const waitOf = ({ retryAfter, policy }: ServiceLimit): number => (retryAfter > 0 ? retryAfter : policy.window)

function contextOf(limit: ServiceLimit): RefusalContext {
  const ttl = waitOf(limit)
  return { statusCode: 429, ban: false, max: limit.policy.quota, ttl, after: inWords(wholeSeconds(ttl)) }
}

function hide(reply: FastifyReply, names: readonly string[]): void {
  for (const name of names) reply.removeHeader(name)
}

interface Built {
  readonly statusCode?: unknown
  readonly code?: unknown
}

/** What was built, as Fastify would have sent it, had it been thrown. */
function write(reply: FastifyReply, built: object | undefined): string {
  if (typeof built !== 'object' || built === null)
    throw new TypeError(`errorResponseBuilder must return an object, got ${show(built)}`)
  const { statusCode, code } = built as Built
  const status = isRefusal(statusCode) ? statusCode : 429
  const body =
    built instanceof Error
      ? { statusCode: status, code, error: STATUS_CODES[status], message: built.message }
      : built
  const text = JSON.stringify(body)
  reply.code(status)
  return text
}

const isRefusal = (status: unknown): status is number =>
  typeof status === 'number' && Number.isInteger(status) && status >= 400 && status <= 599
