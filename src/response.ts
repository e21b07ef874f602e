import type { FastifyReply } from 'fastify'
import { announced } from './announced.js'
import type { About, Announced, Telling } from './announced.js'
import { isCertain, refusing } from './decision.js'
import type { Decision } from './decision.js'
import { FIELD, carriesFields, limitText, partitionKeyText, retryAfter, windowSeconds } from './fields.js'
import { legacyFields } from './legacy.js'
import type { Legacy, LegacyFields, LegacyLimit } from './legacy.js'
import type { KeyOf } from './partition-key.js'
import type { QuotaPolicy } from './policy.js'
import type { MakeBody, RefusalBody } from './refusal-body.js'
import { replace, restore, restored, textOf } from './shared-fields.js'

/** What a server puts on the wire. */
export interface Wire extends Telling {
  /** Whether the draft's fields are sent. */
  readonly fields: boolean
  readonly legacy: Legacy | false
  readonly partitionKey: KeyOf | undefined
  /** Whether SDKs that would retry a refusal by rules of their own are told not to. */
  readonly sdkHints: boolean
  /** Milliseconds of the epoch, to be compared with `Date`. */
  readonly wallClock: () => number
  readonly bodyType: string
  readonly body: MakeBody
}

/** What a response is about, besides the decision. */
export interface Occasion extends About {
  /** Its `RateLimit-Policy`. */
  readonly policyField: string
  /** The policies that are listed there. */
  policies(): readonly QuotaPolicy[]
}

/** What was written to one response: our own text in each list, which may hold that of others too, and the other fields. */
export class WrittenFields {
  policy = ''
  limit = ''
  legacy: LegacyFields = NO_FIELDS
  /** The body of a refusal. */
  body: RefusalBody | undefined
}

const NO_FIELDS: LegacyFields = Object.freeze([])

/**
 * Writes the fields of a decision, none if a store could not make it: no number is better than an invented one. Called again
 * for the same response, it replaces what it wrote before.
 */
export function writeFields(
  wire: Wire,
  reply: FastifyReply,
  sheet: WrittenFields,
  decision: Decision,
  occasion: Occasion
): void {
  if (decision.outcome === 'allowed' ? !isCertain(decision) : decision.source === 'closed') {
    return removeFields(reply, sheet)
  }
  if (decision.limits.length === 0) return
  const shown = announced(wire, occasion, decision)
  if (wire.fields) {
    let items = ''
    for (const each of shown) {
      if (items !== '') items += ', '
      items += itemText(each)
      if (wire.partitionKey !== undefined) items += keyText(wire.partitionKey, reply, each, occasion)
    }
    sheet.policy = replace(reply, FIELD.policy, sheet.policy, occasion.policyField)
    sheet.limit = replace(reply, FIELD.limit, sheet.limit, items)
  }
  if (wire.legacy !== false) writeLegacy(wire, wire.legacy, reply, sheet, shown, occasion)
}

/**
 * Just before a response leaves: no fields on a status that must not carry them, nor on a response that a cache may give to
 * others, and ours beside those set later.
 * @returns The payload to send: of a refusal the text, now that no serializer can touch it, for Node sends that in one piece.
 */
export function correctFields(reply: FastifyReply, sheet: WrittenFields, given: unknown): unknown {
  const payload = sheet.body !== undefined && given === sheet.body.bytes ? sheet.body.text : given
  // Fastify takes status and fields from a `Response` after the last hook.
  const fetched = isResponse(payload) ? payload : undefined
  if (carriesFields(fetched?.status ?? reply.statusCode) && !isShared(reply, fetched)) {
    restore(reply, FIELD.policy, sheet.policy)
    restore(reply, FIELD.limit, sheet.limit)
    // One number of ours and one of theirs would be no truth of either.
    if (sheet.legacy !== NO_FIELDS && sheet.legacy.some(field => isTheirs(reply, fetched, field))) {
      removeLegacy(reply, sheet)
    }
    if (fetched === undefined) return payload
    return restored(fetched, [
      [FIELD.policy, sheet.policy],
      [FIELD.limit, sheet.limit]
    ])
  }
  removeFields(reply, sheet)
  return payload
}

/** The text of a field as it will be sent. */
function sentText(reply: FastifyReply, fetched: Response | undefined, name: string): string {
  return fetched?.headers.get(name) ?? textOf(reply, name)
}

/** Whether somebody has set a field since we wrote it. */
function isTheirs(
  reply: FastifyReply,
  fetched: Response | undefined,
  [name, own]: LegacyFields[number]
): boolean {
  const sent = sentText(reply, fetched, name)
  return sent !== own && sent !== ''
}

/**
 * Whether a response says that a shared cache may keep it (RFC 9111 §5.2.2), and so give one client's quota to another. To
 * some caches it speaks by a field of their own, which they follow instead (RFC 9213).
 */
function isShared(reply: FastifyReply, fetched: Response | undefined): boolean {
  if (mayBeKept(sentText(reply, fetched, 'cache-control'), FOR_OTHERS)) return true
  for (const name of OF_SHARED_CACHES) {
    if (mayBeKept(sentText(reply, fetched, name), FOR_A_WHILE)) return true
  }
  return false
}

const FOR_OTHERS = /^(public$|s-maxage="?0*[1-9])/
const FOR_A_WHILE = /^(public$|(s-maxage|max-age)="?0*[1-9])/

const OF_SHARED_CACHES = ['cdn-cache-control', 'surrogate-control'] as const

function mayBeKept(field: string, directive: RegExp): boolean {
  if (field === '' || field === 'no-store') return false
  const directives = field.toLowerCase().split(/[\s,]+/)
  if (directives.includes('no-store') || directives.includes('private')) return false
  return directives.some(each => directive.test(each))
}

/** Answers with a refusal: status, fields and body. It does not pass through the error handler. */
export function sendRefusal(
  wire: Wire,
  reply: FastifyReply,
  sheet: WrittenFields,
  decision: Decision,
  occasion: Occasion
): FastifyReply {
  const wait = waitOf(wire, decision, occasion)
  writeFields(wire, reply, sheet, decision, occasion)
  const waitIsTheirs = reply.hasHeader(FIELD.retryAfter)
  if (waitIsTheirs) {
    sheet.limit = replace(reply, FIELD.limit, sheet.limit, '')
    removeLegacy(reply, sheet)
  } else if (wait !== undefined) {
    reply.header(FIELD.retryAfter, String(wait))
  }
  if (wire.sdkHints) reply.header('x-should-retry', 'false')
  for (const name of OF_THE_RESOURCE) if (reply.hasHeader(name)) reply.removeHeader(name)
  const body = wire.body(decision, waitIsTheirs ? undefined : wait, reply.request)
  sheet.body = body
  reply.code(body.status).header('cache-control', 'no-store').header('content-type', wire.bodyType)
  // As bytes, which no serializer of the application touches.
  return reply.send(body.bytes)
}

/** Fields that may have been set for the resource, and that are wrong on a refusal, which is not cached and not encoded. */
const OF_THE_RESOURCE = [
  ...OF_SHARED_CACHES,
  'content-disposition',
  'content-encoding',
  'content-length',
  'content-range',
  'etag',
  'expires',
  'last-modified'
] as const

const itemText = ({ limit, available, window }: Announced): string =>
  limitText(limit.policy.prefix, available, window)

function keyText(keyOf: KeyOf, { request }: FastifyReply, { limit }: Announced, about: About): string {
  const key = keyOf(request, limit.policy, about.whose)
  return key === undefined ? '' : partitionKeyText(key)
}

/** Seconds until somebody can be asked again, in `ms`, spread so that clients do not come back together. */
const backLater = (ms: number): number => Math.max(1, Math.ceil(ms / 1000)) + Math.floor(Math.random() * 3)

/** `Retry-After` of a refusal: no earlier than any `t`, for both are lengthened by the same. */
function waitOf(wire: Wire, decision: Decision, occasion: Occasion): number | undefined {
  if (decision.source === 'closed') return backLater(decision.retryAfter ?? 0)
  return retryAfter(
    refusing(decision).map(limit => {
      const jitter = wire.jitter(limit.policy, occasion.whose)
      return {
        wait: limit.retryAfter,
        effectiveWindow: windowSeconds(limit.effectiveWindow, 'wait', jitter),
        jitter
      }
    })
  )
}

function writeLegacy(
  wire: Wire,
  legacy: Legacy,
  reply: FastifyReply,
  sheet: WrittenFields,
  shown: readonly Announced[],
  occasion: Occasion
): void {
  const fields = legacyFields(legacy, {
    limits: shown.map(uncapped),
    policies: occasion.policies().map(({ capacity, announcedWindow }) => ({
      quota: capacity,
      window: announcedWindow
    })),
    now: wire.wallClock(),
    beside: wire.fields
  })
  removeLegacy(reply, sheet)
  for (const [name, value] of fields) reply.header(name, value)
  sheet.legacy = fields
}

const uncapped = ({ limit: { policy, remaining, effectiveWindow }, jitter }: Announced): LegacyLimit => ({
  quota: policy.capacity,
  unit: policy.unit,
  remaining,
  effectiveWindow: effectiveWindow === 0 ? 0 : effectiveWindow + jitter
})

function removeFields(reply: FastifyReply, sheet: WrittenFields): void {
  sheet.policy = replace(reply, FIELD.policy, sheet.policy, '')
  sheet.limit = replace(reply, FIELD.limit, sheet.limit, '')
  removeLegacy(reply, sheet)
}

/** Those that somebody has set since are theirs. */
function removeLegacy(reply: FastifyReply, sheet: WrittenFields): void {
  for (const [name, own] of sheet.legacy) if (reply.getHeader(name) === own) reply.removeHeader(name)
  sheet.legacy = NO_FIELDS
}

/** As Fastify tells: a `Response` may be of another realm or library. */
function isResponse(payload: unknown): payload is Response {
  return typeof payload === 'object' && Object.prototype.toString.call(payload) === '[object Response]'
}
