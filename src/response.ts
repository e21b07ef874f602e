import type { FastifyReply, FastifyRequest } from 'fastify'
import { NEVER } from './algorithm.js'
import { isCertain, refusing } from './decision.js'
import type { Decision } from './decision.js'
import {
  FIELD,
  carriesFields,
  closestFirst,
  joinField,
  limitText,
  retryAfter,
  waitSeconds,
  wholeSeconds
} from './fields.js'
import { LEGACY_NAMES, xRateLimit } from './legacy.js'
import type { XRateLimit } from './legacy.js'
import { problem, refusalDetail } from './problem.js'
import type { Problem } from './problem.js'
import type { ServiceLimit } from './store.js'

/** What a server puts on the wire. */
export interface Wire {
  /** Whether the draft's fields are sent. */
  readonly fields: boolean
  readonly legacy: XRateLimit | false
  /** Milliseconds of the epoch, to be compared with `Date`. */
  readonly wallClock: () => number
  readonly bodyType: string
  /** Makes the body of a refusal, as text, from what the draft would say. Never throws. */
  readonly body: (decision: Decision, draft: Problem, request: FastifyRequest) => string
}

/** What was written to one response: our own text in each field, which may hold that of others too. */
export class WrittenFields {
  policy = ''
  limit = ''
  legacy = false
}

/**
 * Writes the fields of a decision, none if a store could not make it: no number is better than an invented one. Called again for the same response, it replaces what it
 * wrote before.
 * @param policyField The `RateLimit-Policy` of the response.
 */
export function writeFields(
  wire: Wire,
  reply: FastifyReply,
  sheet: WrittenFields,
  decision: Decision,
  policyField: string
): void {
  if (decision.outcome === 'allowed' ? !isCertain(decision) : decision.source === 'closed') {
    return removeFields(reply, sheet)
  }
  if (decision.limits.length === 0) return
  const limits = shownLimits(decision)
  if (wire.fields) {
    sheet.policy = replace(reply, FIELD.policy, sheet.policy, policyField)
    sheet.limit = replace(reply, FIELD.limit, sheet.limit, limits.map(itemText).join(', '))
  }
  if (wire.legacy === false) return
  if (limits[0] === undefined) return removeLegacy(reply, sheet)
  sheet.legacy = true
  writeLegacy(wire.legacy.reset, reply, limits[0], wire.wallClock())
}

/**
 * Just before a response leaves: no fields on a status that must not carry them, and ours beside those set later.
 * @returns The payload to send.
 */
export function correctFields(reply: FastifyReply, sheet: WrittenFields, payload: unknown): unknown {
  // Fastify takes status and fields from a `Response` after the last hook.
  const fetched = isResponse(payload) ? payload : undefined
  if (carriesFields(fetched?.status ?? reply.statusCode)) {
    restore(reply, FIELD.policy, sheet.policy)
    restore(reply, FIELD.limit, sheet.limit)
    return fetched === undefined ? payload : restored(fetched, sheet)
  }
  removeFields(reply, sheet)
  return payload
}

/** Answers with a refusal: status, fields and body. It does not pass through the error handler. */
export function sendRefusal(
  wire: Wire,
  reply: FastifyReply,
  sheet: WrittenFields,
  decision: Decision,
  policyField: string
): FastifyReply {
  const refused = refusing(decision)
  const wait =
    decision.source === 'closed'
      ? backLater(decision.retryAfter ?? 0)
      : retryAfter(refused.map(limit => ({ wait: limit.retryAfter, effectiveWindow: windowSeconds(limit) })))
  writeFields(wire, reply, sheet, decision, policyField)
  const waitIsTheirs = reply.hasHeader(FIELD.retryAfter)
  if (waitIsTheirs) {
    sheet.limit = replace(reply, FIELD.limit, sheet.limit, '')
    removeLegacy(reply, sheet)
  } else if (wait !== undefined) {
    reply.header(FIELD.retryAfter, String(wait))
  }
  for (const name of OF_THE_RESOURCE) reply.removeHeader(name)
  const draft = draftProblem(decision, waitIsTheirs ? undefined : wait)
  reply.code(draft.status).header('cache-control', 'no-store').header('content-type', wire.bodyType)
  // As bytes, which no serializer of the application touches.
  return reply.send(Buffer.from(wire.body(decision, draft, reply.request)))
}

/** Fields that may have been set for the resource, and that are wrong on a refusal, which is not cached and not encoded. */
const OF_THE_RESOURCE = [
  'cdn-cache-control',
  'content-disposition',
  'content-encoding',
  'content-length',
  'content-range',
  'etag',
  'expires',
  'last-modified',
  'surrogate-control'
] as const

/** What a client may see: refusing policies on a refusal, else all; the closest to exhaustion first. */
function shownLimits(decision: Decision): readonly ServiceLimit[] {
  const limits = decision.limits.filter(
    ({ policy, allowed }) => policy.advertise && (decision.outcome === 'allowed' || !allowed)
  )
  return limits.length < 2 ? limits : limits.sort((a, b) => closestFirst(closeness(a), closeness(b)))
}

const closeness = ({ policy, allowed, remaining }: ServiceLimit): Parameters<typeof closestFirst>[0] => ({
  refused: !allowed,
  remaining,
  quota: policy.capacity,
  window: policy.announcedWindow
})

const itemText = (limit: ServiceLimit): string =>
  limitText(limit.policy.prefix, limit.remaining, windowSeconds(limit))

/** Seconds until somebody can be asked again, in `ms`, spread so that clients do not come back together. */
const backLater = (ms: number): number => Math.max(1, Math.ceil(ms / 1000)) + Math.floor(Math.random() * 3)

/** `t` in whole seconds; 0: none. A wait is capped, a time to spend in is not: that would raise r / t. */
function windowSeconds({ allowed, remaining, effectiveWindow }: ServiceLimit): number {
  if (effectiveWindow === 0) return 0
  return allowed && remaining > 0 ? wholeSeconds(effectiveWindow) : waitSeconds(effectiveWindow, 0)
}

function writeLegacy(
  reset: XRateLimit['reset'],
  reply: FastifyReply,
  limit: ServiceLimit,
  now: number
): void {
  const { policy, remaining, effectiveWindow } = limit
  const values = xRateLimit(reset, { quota: policy.capacity, remaining, effectiveWindow }, now)
  LEGACY_NAMES.forEach((name, i) => {
    const value = values[i]
    if (value === undefined) reply.removeHeader(name)
    else reply.header(name, value)
  })
}

function removeFields(reply: FastifyReply, sheet: WrittenFields): void {
  sheet.policy = replace(reply, FIELD.policy, sheet.policy, '')
  sheet.limit = replace(reply, FIELD.limit, sheet.limit, '')
  removeLegacy(reply, sheet)
}

function removeLegacy(reply: FastifyReply, sheet: WrittenFields): void {
  if (sheet.legacy) for (const name of LEGACY_NAMES) reply.removeHeader(name)
  sheet.legacy = false
}

/** Puts `own` where `before` stands in a field, or at its end; the values of others stay. Returns `own`. */
function replace(reply: FastifyReply, name: string, before: string, own: string): string {
  const value = reply.getHeader(name)
  if (value === undefined || value === before) {
    if (own !== '') reply.header(name, own)
    else if (value !== undefined) reply.removeHeader(name)
    return own
  }
  const current = textOf(reply, name)
  const [ahead, behind] = around(current, before) ?? [current, '']
  reply.header(name, joinField([ahead, own], behind))
  return own
}

/** Joins `own` to a field whose value somebody has replaced since; a field that somebody has removed stays away. */
function restore(reply: FastifyReply, name: string, own: string): void {
  if (own === '' || reply.getHeader(name) === own) return
  const current = textOf(reply, name)
  if (current !== '' && around(current, own) === undefined) reply.header(name, joinField(current, own))
}

/** As {@link restore}, in a `Response`, whose own fields cannot be changed. */
function restored(response: Response, sheet: WrittenFields): Response {
  const headers = new Headers(response.headers)
  const ours = [
    [FIELD.policy, sheet.policy],
    [FIELD.limit, sheet.limit]
  ] as const
  let changed = false
  for (const [name, own] of ours) {
    const current = headers.get(name)
    if (own === '' || current === null || around(current, own) !== undefined) continue
    headers.set(name, joinField(current, own))
    changed = true
  }
  if (!changed || response.bodyUsed) return response
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers })
}

/** As Fastify tells: a `Response` may be of another realm or library. */
function isResponse(payload: unknown): payload is Response {
  return typeof payload === 'object' && Object.prototype.toString.call(payload) === '[object Response]'
}

/** What stands before and behind `own`, which is one or more whole members of a field; `undefined`: it is not there. */
function around(field: string, own: string): readonly [ahead: string, behind: string] | undefined {
  if (own === '') return undefined
  for (let at = field.indexOf(own); at >= 0; at = field.indexOf(own, at + 1)) {
    const ahead = field.slice(0, at).trimEnd()
    const behind = field.slice(at + own.length).trimStart()
    // `"a";r=1` is no member of `"a";r=10`
    if ((ahead === '' || ahead.endsWith(',')) && (behind === '' || behind.startsWith(','))) {
      return [ahead.slice(0, -1), behind.slice(1).trimStart()]
    }
  }
  return undefined
}

function textOf(reply: FastifyReply, name: string): string {
  const value = reply.getHeader(name)
  return typeof value === 'string' ? value : joinField(value, '')
}

function draftProblem(decision: Decision, wait: number | undefined): Problem {
  const limits = refusing(decision)
  const status = limits.some(({ policy }) => policy.status === 429) ? 429 : 503
  const shown = shownLimits(decision)
  return problem({
    type: status === 429 ? 'quota-exceeded' : 'temporary-reduced-capacity',
    status,
    detail: refusalDetail({
      policies: shown.map(({ policy, units }) => ({
        name: policy.name,
        quota: policy.capacity,
        unit: policy.unit,
        window: policy.announcedWindow === 0 ? undefined : policy.announcedWindow * 1000,
        cost: units
      })),
      retryAfter: wait,
      never: limits.some(limit => limit.retryAfter === NEVER)
    }),
    violatedPolicies: shown.map(({ policy }) => policy.name)
  })
}
