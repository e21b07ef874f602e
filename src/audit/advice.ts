import type { AuditResult, CheckName, Limiter } from './result.js'
import { windowOf } from './words.js'

/** What an operator can do about what was found, as sentences; none if there is nothing to do. */
export function adviceOf(result: AuditResult): readonly string[] {
  const { limiter, promiseKept, fields } = result
  const lies = fields.checks.filter(({ answer }) => answer === 'false').map(({ name }) => FIELDS[name])
  const doubts = fields.checks.filter(({ answer }) => answer === 'careful').map(({ name }) => DOUBTS[name])
  return [...(promiseKept ? [] : [aboutLimiter(limiter, result)]), ...lies, ...doubts].filter(
    advice => advice !== undefined
  )
}

function aboutLimiter({ kind, capacity }: Limiter, { promise, worst }: AuditResult): string {
  const { quota } = promise
  const window = windowOf(promise)
  const keeps = `a sliding window or an exact log keeps ${quota} in any ${window}`
  switch (kind) {
    case 'fixed':
      return `Windows that start anew admit twice the quota around each edge: ${keeps}. Until then, half the quota in the same windows keeps the promise.`
    case 'counter':
      return `A counter that takes the last window for evenly filled forgets bursts: ${keeps}. More sub-windows make the excess smaller.`
    case 'bucket':
      return `A bucket admits its burst and what flows back within ${window}${capacity === null ? '' : `, here ${capacity} and more`}: ${keeps}. Or promise what it keeps: a burst and a rate whose sum is the quota.`
    case 'log':
      return `It counts any window, but up to ${worst.mostInAnyWindow}: compare the quota it is set to with the ${quota} it promises, and look whether several processes count apart.`
    case 'none':
      return `Nothing was refused: see whether the limit is on for this route and method, and whom it exempts.`
    case 'unknown':
      return `Look whether several processes count apart, or whether the store forgets: ${worst.mostInAnyWindow} were admitted instead of ${quota}.`
  }
}

/** What to do about a field that is false. */
const FIELDS: Readonly<Record<CheckName, string>> = {
  'units-left': 'Announce no more units than will be admitted: clients that trust r are refused.',
  'retry-after': 'Round Retry-After up: clients that obey it come back too early and are refused again.',
  'retry-after-covers-t':
    'Let Retry-After be no earlier than t, or clients that read one of them are refused.',
  'policy-stable': 'Keep RateLimit-Policy the same for the same client: clients plan by it.',
  'body-names-policy': 'Name the policies that refused in the body, as the problem type of the draft does.',
  'not-cacheable': 'Send Cache-Control: no-store with refusals, or a cache refuses others.',
  'no-identifiers': 'Take what identifies a client out of the fields: whoever reads a response learns it.'
}

/** What to do where less was said than could be. */
const DOUBTS: Readonly<Partial<Record<CheckName, string>>> = {
  'retry-after':
    'Let Retry-After be the time until the request fits, so that clients do not wait longer than they must.',
  'body-names-policy':
    'Name the policies that refused in the body, so that clients know which quota they have used up.',
  'not-cacheable': 'Send Cache-Control: no-store with refusals: no cache has to be trusted then.'
}
