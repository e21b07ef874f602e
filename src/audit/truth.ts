import { parseRateLimit, parseRateLimitPolicy } from '../client/rate-limit.js'
import { show } from '../options.js'
import { DRAFT_11 } from '../wire-names.js'
import type { Exchange } from './exchange.js'
import { leakFinder } from './leaks.js'
import type { Place } from './leaks.js'
import type { CheckName, FieldCheck, FieldsReport, SeenField } from './result.js'

/** All exchanges of an audit, in the order in which they were sent. */
export interface Testimony {
  readonly exchanges: readonly Exchange[]
  /** Units that a request costs. */
  readonly cost: number
  /** Milliseconds. */
  readonly window: number
}

/** Whether what the fields say is true, as far as the exchanges show. */
export function fieldsReport(testimony: Testimony): FieldsReport {
  return {
    seen: seenFields(testimony.exchanges),
    checks: CHECKS.map(({ name, question, check }) => ({ name, question, ...check(testimony) }))
  }
}

type Finding = Omit<FieldCheck, 'name' | 'question'>

const CHECKS: readonly {
  readonly name: CheckName
  readonly question: string
  readonly check: (testimony: Testimony) => Finding
}[] = [
  { name: 'units-left', question: 'Is what is left admitted?', check: unitsLeft },
  { name: 'retry-after', question: 'Is who waits for Retry-After admitted?', check: retryAfter },
  { name: 'retry-after-covers-t', question: 'Is Retry-After no shorter than t?', check: retryAfterCoversT },
  { name: 'policy-stable', question: 'Is RateLimit-Policy always the same?', check: policyStable },
  { name: 'body-names-policy', question: 'Does a refusal name its policy?', check: bodyNamesPolicy },
  { name: 'not-cacheable', question: 'Does no cache keep a refusal?', check: notCacheable },
  { name: 'no-identifiers', question: 'Is nobody told who asked?', check: noIdentifiers }
]

const UNSEEN: Finding = { answer: 'unseen', seen: 0, wrong: 0, detail: 'nothing to judge by' }

/** The finding of a check that was made `seen` times. */
function finding(seen: number, wrongs: readonly string[], otherwise: Partial<Finding> = {}): Finding {
  const [first] = wrongs
  if (first !== undefined) return { answer: 'false', seen, wrong: wrongs.length, detail: first }
  if (seen === 0 && otherwise.answer === undefined) return { ...UNSEEN, ...otherwise }
  return { answer: 'true', seen, wrong: 0, detail: `${seen} times`, ...otherwise }
}

/**
 * Holds each answer against the request after it: so many units as were left must have been admitted, those aside that
 * others may have spent meanwhile.
 */
function unitsLeft({ exchanges, cost, window }: Testimony): Finding {
  const wrongs: string[] = []
  let seen = 0
  let early = 0
  for (const [i, asked] of exchanges.entries()) {
    const told = lastTold(exchanges, i)
    if (told === undefined || asked.send.way !== undefined || isOtherUnit(asked)) continue
    const { exchange, available, until } = told
    const left = available - spentBetween(exchanges, exchange, i) * cost
    const soon = asked.arrived <= exchange.sent + (until ?? window)
    if (left >= cost && soon && asked.outcome !== 'failed') {
      seen++
      if (asked.outcome === 'refused') {
        wrongs.push(`${available} were left, ${left} at least when the next request came, and it was refused`)
      }
    }
    if (available < cost && until !== undefined && asked.outcome === 'admitted') {
      if (asked.arrived < exchange.sent + until - SECOND) early++
    }
  }
  const detail = `nothing was left ${early} times, and more was admitted over a second before t had passed`
  return finding(seen, wrongs, early > 0 ? { answer: 'careful', detail } : {})
}

const SECOND = 1000

/** What the latest answer had told when a request was sent. */
function lastTold(
  exchanges: readonly Exchange[],
  index: number
): { exchange: Exchange; available: number; until: number | undefined } | undefined {
  const { sent } = exchanges[index]!
  let latest: Exchange | undefined
  for (let i = index - 1; i >= 0 && i >= index - NEAR; i--) {
    const exchange = exchanges[i]!
    if (exchange.arrived <= sent && exchange.arrived > (latest?.arrived ?? -Infinity)) latest = exchange
  }
  if (latest === undefined) return undefined
  const limits = latest.reading.told.filter(
    ({ unit = DRAFT_11.defaultUnit, available }) => unit === DRAFT_11.defaultUnit && available !== undefined
  )
  const [fewest] = limits.toSorted((a, b) => a.available! - b.available!)
  return fewest === undefined
    ? undefined
    : { exchange: latest, available: fewest.available!, until: fewest.effectiveWindow }
}

/** Requests before one that are looked at; of more at the same time nobody can tell what was left. */
const NEAR = 1000

/** Requests that may have been counted after the answer `told`, and before the one at `index`. */
function spentBetween(exchanges: readonly Exchange[], told: Exchange, index: number): number {
  const asked = exchanges[index]!
  let spent = 0
  for (let i = Math.max(0, index - NEAR); i < exchanges.length; i++) {
    const exchange = exchanges[i]!
    if (i > index && exchange.sent >= asked.arrived) break
    if (exchange === told || exchange === asked || exchange.outcome === 'refused') continue
    if (exchange.arrived > told.sent && exchange.sent < asked.arrived) spent++
  }
  return spent
}

/** Whether what refused it counts something else than requests. */
function isOtherUnit({ outcome, reading }: Exchange): boolean {
  const units = reading.told.filter(({ available }) => available === 0).map(({ unit }) => unit)
  return (
    outcome === 'refused' &&
    units.length > 0 &&
    units.every(unit => unit !== undefined && unit !== DRAFT_11.defaultUnit)
  )
}

function retryAfter({ exchanges }: Testimony): Finding {
  const refused = exchanges.filter(({ outcome }) => outcome === 'refused')
  const silent = refused.filter(({ reading }) => reading.retryAfter === undefined).length
  const returned = returns(exchanges)
  const wrongs = returned
    .filter(({ asked }) => asked.outcome === 'refused')
    .map(({ refusal, wait, asked }) => {
      const waited = ((asked.sent - refusal.arrived) / SECOND).toFixed(3)
      return `told to wait ${wait / SECOND} s, it was refused again after ${waited} s`
    })
  const detail = `${silent} of ${refused.length} refusals do not say how long to wait`
  return finding(returned.length, wrongs, silent > 0 ? { answer: 'careful', detail } : {})
}

/** A request of somebody who had waited as told. */
interface Return {
  readonly refusal: Exchange
  /** Milliseconds. */
  readonly wait: number
  readonly asked: Exchange
}

/** Those that came alone after silence: who asks in between may prolong the wait, and who asks as well may get there first. */
function returns(exchanges: readonly Exchange[]): Return[] {
  const returns: Return[] = []
  let answered = -Infinity
  let refusal: Exchange | undefined
  for (const [i, asked] of exchanges.entries()) {
    const wait = refusal?.reading.retryAfter
    const alone = asked.sent >= answered && isFirst(exchanges, i)
    if (refusal !== undefined && wait !== undefined && alone && asked.sent >= refusal.arrived + wait) {
      if (asked.outcome !== 'failed' && asked.send.way === undefined) returns.push({ refusal, wait, asked })
    }
    answered = Math.max(answered, asked.arrived)
    refusal = latest(refusal, asked)
  }
  return returns
}

/** The refusal to wait for after one more request: none once something is admitted again. */
function latest(refusal: Exchange | undefined, asked: Exchange): Exchange | undefined {
  const { outcome, sent, arrived } = asked
  if (outcome === 'refused') return arrived > (refusal?.arrived ?? -Infinity) ? asked : refusal
  return outcome === 'admitted' && sent > (refusal?.arrived ?? Infinity) ? undefined : refusal
}

/** Whether no request that was sent later can have been counted before. */
function isFirst(exchanges: readonly Exchange[], index: number): boolean {
  const { arrived } = exchanges[index]!
  for (let i = index + 1; i < exchanges.length && exchanges[i]!.sent < arrived; i++) {
    if (exchanges[i]!.outcome !== 'refused') return false
  }
  return true
}

/** Of the draft's own field alone: the older ones count to points in time, rounded either way. */
function retryAfterCoversT({ exchanges }: Testimony): Finding {
  const pairs = exchanges.flatMap(({ outcome, reading, fields }) => {
    const windows = (parseRateLimit(fields[DRAFT_11.field.limit]) ?? []).flatMap(
      ({ effectiveWindow }) => effectiveWindow ?? []
    )
    const { retryAfter } = reading
    if (outcome !== 'refused' || retryAfter === undefined || windows.length === 0) return []
    return [{ wait: retryAfter / SECOND, t: Math.max(...windows) }]
  })
  const wrongs = pairs
    .filter(({ wait, t }) => wait < t)
    .map(({ wait, t }) => `Retry-After: ${wait}, and t=${t}`)
  return finding(pairs.length, wrongs)
}

function policyStable({ exchanges }: Testimony): Finding {
  const values = exchanges
    .filter(({ send }) => send.way === undefined)
    .flatMap(({ fields }) => fields[DRAFT_11.field.policy] ?? [])
  const distinct = [...new Set(values)]
  const wrongs = distinct.slice(1).map(value => `${distinct[0]}, and then ${value}`)
  return finding(values.length, wrongs)
}

function bodyNamesPolicy({ exchanges }: Testimony): Finding {
  const refusals = exchanges.filter(({ outcome, body }) => outcome === 'refused' && body !== '')
  const announced = refusals.map(exchange => ({ names: violated(exchange), known: announcedNames(exchange) }))
  const named = announced.filter(({ names }) => names.length > 0)
  const wrongs = named.flatMap(({ names, known }) =>
    names
      .filter(name => known.length > 0 && !known.includes(name))
      .map(name => `it names ${show(name)}, and the fields ${known.map(show).join(', ')}`)
  )
  const nameless = refusals.length - named.length
  const detail = `${nameless} of ${refusals.length} refusals have no violated-policies (draft §5)`
  return finding(named.length, wrongs, nameless > 0 ? { answer: 'careful', detail } : {})
}

/** The policies that a problem document (RFC 9457) names as violated. */
function violated({ fields, body }: Exchange): readonly string[] {
  if (!/^application\/problem\+json\s*(?:;|$)/i.test(fields['content-type'] ?? '')) return []
  try {
    const { 'violated-policies': names } = JSON.parse(body) as { readonly 'violated-policies'?: unknown }
    return Array.isArray(names) ? names.map(String) : []
  } catch {
    return []
  }
}

function announcedNames({ fields }: Exchange): readonly string[] {
  const { policy, limit } = DRAFT_11.field
  const items = [...(parseRateLimitPolicy(fields[policy]) ?? []), ...(parseRateLimit(fields[limit]) ?? [])]
  return [...new Set(items.map(item => item.policy))]
}

/** A cache must not keep a 429 (RFC 6585 §4), and should be told so: not all know. */
function notCacheable({ exchanges }: Testimony): Finding {
  const refusals = exchanges.filter(({ outcome }) => outcome === 'refused')
  const controls = refusals.map(({ fields }) => fields['cache-control']?.toLowerCase() ?? '')
  const wrongs = controls
    .filter(
      control => /\bpublic\b|\b(?:s-maxage|max-age)="?0*[1-9]/.test(control) && !control.includes('no-store')
    )
    .map(control => `Cache-Control: ${control}`)
  const untold = controls.filter(control => !control.includes('no-store')).length
  const detail = `${untold} of ${refusals.length} refusals have no Cache-Control: no-store`
  return finding(refusals.length, wrongs, untold > 0 ? { answer: 'careful', detail } : {})
}

/** Looks at the fields about limits, at the partition keys in them, and at the bodies of refusals. */
function noIdentifiers({ exchanges }: Testimony): Finding {
  const told = exchanges.filter(exchange => placesOf(exchange).length > 0)
  const distinct = new Map(told.map(exchange => [JSON.stringify(textsOf(exchange)), exchange]))
  const find = leakFinder(exchanges[0]!.request)
  const leaks = [...distinct.values()].flatMap(exchange => find(placesOf(exchange)))
  return finding(told.length, [
    ...new Set(leaks.map(({ what, where, text }) => `${where} shows ${what}: ${text}`))
  ])
}

function textsOf({ fields, outcome, body }: Exchange): unknown {
  return [limitFields(fields), outcome === 'refused' ? body : '']
}

function placesOf({ fields, outcome, body }: Exchange): Place[] {
  const { policy, limit } = DRAFT_11.field
  const keys = [...(parseRateLimitPolicy(fields[policy]) ?? []), ...(parseRateLimit(fields[limit]) ?? [])]
  return [
    ...keys.flatMap(({ partitionKey }) =>
      partitionKey === undefined ? [] : { where: 'pk', bytes: partitionKey }
    ),
    ...limitFields(fields).map(([name, value]) => ({ where: name, bytes: Buffer.from(value, 'latin1') })),
    ...(outcome === 'refused' && body !== '' ? [{ where: 'the body', bytes: Buffer.from(body) }] : [])
  ]
}

function limitFields(fields: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(fields).filter(([name]) => LIMIT_FIELD.test(name))
}

const LIMIT_FIELD = /rate-?limit|quota|^(?:x-)?retry-after/

function seenFields(exchanges: readonly Exchange[]): SeenField[] {
  const names = new Set(exchanges.flatMap(({ fields }) => limitFields(fields).map(([name]) => name)))
  const example = (name: string, wanted: Exchange['outcome']): string | null =>
    exchanges.find(({ outcome, fields }) => outcome === wanted && fields[name] !== undefined)?.fields[name] ??
    null
  return [...names]
    .sort()
    .map(name => ({ name, admitted: example(name, 'admitted'), refused: example(name, 'refused') }))
}
