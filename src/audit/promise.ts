import type { Reading } from '../client/reading.js'
import type { Told } from '../client/told.js'
import { alternatives, show } from '../options.js'
import { DRAFT_11 } from '../wire-names.js'
import { CannotMeasureError } from './errors.js'
import type { AnnouncedPolicy, AuditPromise } from './result.js'

/** What is stated about the promise, where the fields do not say it or not so. */
export interface Stated {
  readonly quota?: number | undefined
  /** Milliseconds. */
  readonly window?: number | undefined
  /** The announced policy to attack. */
  readonly policy?: string | undefined
}

/**
 * The promise to measure: what is stated, and for the rest what an answer tells. Of several policies in requests that is
 * the one of the shortest window, which can be seen in the shortest time.
 *
 * @throws {CannotMeasureError} when there is none.
 */
export function findPromise(
  { told }: Pick<Reading, 'told'>,
  { quota, window, policy }: Stated
): AuditPromise {
  const stated = quota !== undefined && window !== undefined
  const found = policy === undefined && stated ? undefined : chosen(told, { quota, window, policy })
  return {
    quota: positive(quota ?? found?.quota),
    window: seconds(window ?? found?.window)!,
    policy: found?.policy ?? null,
    source: stated ? 'options' : quota === undefined && window === undefined ? 'fields' : 'both',
    others: told.filter(other => other !== found).map(announced)
  }
}

function chosen(told: readonly Told[], { quota, window, policy }: Stated): Told {
  const inRequests = told.filter(({ unit = DRAFT_11.defaultUnit }) => unit === DRAFT_11.defaultUnit)
  const named = inRequests.filter(limit => policy === undefined || limit.policy === policy)
  const [found] = named
    .filter(limit => (limit.quota ?? quota) !== undefined && (limit.window ?? window) !== undefined)
    .sort((a, b) => (a.window ?? 0) - (b.window ?? 0) || (a.quota ?? 0) - (b.quota ?? 0))
  if (found !== undefined) return found
  throw new CannotMeasureError(`${missing(inRequests, named, policy)}; ${REMEDY}`)
}

const REMEDY = 'state what is promised with --quota and --window (quota, window)'

function missing(inRequests: readonly Told[], named: readonly Told[], policy: string | undefined): string {
  const names = [...new Set(inRequests.map(limit => limit.policy))]
  if (policy !== undefined && named.length === 0) {
    const known = names.length === 0 ? 'none' : alternatives(names)
    return `no policy ${show(policy)} in requests is announced, but ${known}`
  }
  if (named.length === 0) return 'the answer promises nothing: it has no field about a limit of requests'
  const quotas = named.map(({ quota }) => quota ?? 'an unknown number')
  return `the answer tells of ${quotas.join(' and ')} requests, and not per what window`
}

function positive(quota: number | undefined): number {
  if (quota !== undefined && quota > 0) return quota
  throw new CannotMeasureError('the quota is 0: there is nothing to admit, and so nothing to exceed')
}

const seconds = (milliseconds: number | undefined): number | undefined =>
  milliseconds === undefined ? undefined : milliseconds / 1000

function announced({ policy, unit = DRAFT_11.defaultUnit, quota, window }: Told): AnnouncedPolicy {
  return { policy, unit, quota: quota ?? null, window: seconds(window) ?? null }
}
