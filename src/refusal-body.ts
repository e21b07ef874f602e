import { STATUS_CODES } from 'node:http'
import { isLater } from './later.js'
import type { Later } from './later.js'
import { show } from './options.js'
import type { OperatorFaults } from './operator.js'
import { PROBLEM_MEDIA_TYPE } from './problem.js'
import type { Problem } from './problem.js'
import type { Wire } from './response.js'
import type { Settings } from './settings.js'

/** How refusals are told: by the draft's problem types, by the operator's function, or as Fastify tells its own errors. */
export function refusalBody(
  wanted: Settings['problem'],
  faults: OperatorFaults
): Pick<Wire, 'body' | 'bodyType'> {
  if (wanted === false) {
    return { bodyType: 'application/json; charset=utf-8', body: (_decision, draft) => fastifyBody(draft) }
  }
  if (wanted === undefined) {
    return { bodyType: PROBLEM_MEDIA_TYPE, body: (_decision, draft) => JSON.stringify(draft) }
  }
  return {
    bodyType: PROBLEM_MEDIA_TYPE,
    body: (decision, draft, request) => {
      try {
        return textOf(wanted(decision, request), draft.status)
      } catch (error) {
        faults.report(request.log, 'problem', error, "the body is the draft's")
        return JSON.stringify(draft)
      }
    }
  }
}

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
