import type { Reading } from '../client/reading.js'
import { CannotMeasureError } from './errors.js'
import type { Exchange } from './exchange.js'
import { readSettings, refuse } from './options.js'
import type { AuditOptions, Settings } from './options.js'
import { makePlan } from './plan.js'
import type { AuditPlan } from './plan.js'
import { findPromise } from './promise.js'
import { realWorld } from './real-world.js'
import type { AuditResult } from './result.js'
import { probe, runAll } from './runner.js'
import { serve } from './serve.js'
import type { AuditableApp } from './serve.js'
import { readTarget } from './target.js'
import { judge } from './verdict.js'
import { virtualWorld } from './virtual-world.js'
import type { Outgoing, World } from './world.js'

/** What is attacked: a server, or an app of Fastify in this process. */
export type AuditTarget = { readonly url: string | URL } | { readonly app: AuditableApp }

/**
 * Attacks an API as real traffic does, and measures the most it admits in any window.
 *
 * It takes real time, dozens of windows. Of an app whose quotas count on a clock of yours, `clock`, it takes none.
 *
 * @throws {QuotaOptionError} when an option is not what it has to be, or the URL is of another machine.
 * @throws {CannotMeasureError} when nothing is promised, nobody answers, or too little was seen.
 */
export async function audit(target: AuditTarget, options: AuditOptions = {}): Promise<AuditResult> {
  return auditWith(target, readSettings(refuse, options))
}

/** {@link audit}, of options that were read. */
export function auditWith(target: AuditTarget, settings: Settings): Promise<AuditResult> {
  return within(target, settings, async (world, { name, usual }) => {
    const first = answered(await probe(world, usual))
    const { promise, plan } = prepare(world, settings, usual, first.reading)
    settings.onPlan({ target: name, promise, plan })
    const runs = await runAll(world, { plan, usual, first, onProgress: settings.onProgress })
    const tolerance = world.tolerance(plan.terms.window)
    const ended = world.now()
    return judge({ target: name, promise, plan, cost: settings.cost, first, runs, ended, tolerance })
  })
}

/** The plan alone. Nothing is sent, but for one request where the fields have to tell the promise. */
export function planWith(target: AuditTarget, settings: Settings): Promise<AuditPlan> {
  return within(target, settings, async (world, { name, usual }) => {
    const { quota, window, policy } = settings.stated
    const stated = quota !== undefined && window !== undefined && policy === undefined
    const reading = stated ? SILENT : answered(await probe(world, usual)).reading
    return { target: name, ...prepare(world, settings, usual, reading) }
  })
}

const SILENT: Pick<Reading, 'told'> = { told: [] }

interface Place {
  /** The target as a reader knows it. */
  readonly name: string
  /** The usual request. */
  readonly usual: Outgoing
}

/** Does something where the target is, and leaves nothing behind. */
async function within<T>(
  target: AuditTarget,
  settings: Settings,
  work: (world: World, place: Place) => Promise<T>
): Promise<T> {
  const { clock, signal, path, method, headers, body } = settings
  const usual = { method, path, headers, body }
  const real = { connections: settings.connections, patience: PATIENCE, signal }
  if (!('app' in target)) {
    if (clock !== undefined)
      refuse('clock goes with { app } only: a server that runs counts on its own, got a url')
    const { origin, path } = readTarget(refuse, target.url, settings.ownHost)
    return using(realWorld(origin, real), world =>
      work(world, { name: origin + path, usual: { ...usual, path } })
    )
  }
  const { app } = target
  const place = { name: `app ${path}`, usual }
  await app.ready()
  if (clock !== undefined) return using(virtualWorld(app, clock, signal), world => work(world, place))
  return using(await serve(app), ({ origin }) => using(realWorld(origin, real), world => work(world, place)))
}

/** Longer than an answer takes, and shorter than a reader waits. */
const PATIENCE = 30_000

async function using<R extends { close: () => Promise<void> }, T>(
  resource: R,
  work: (resource: R) => Promise<T>
): Promise<T> {
  try {
    return await work(resource)
  } finally {
    await resource.close()
  }
}

function answered(first: Exchange): Exchange {
  if (first.failure !== undefined) throw new CannotMeasureError(`nobody answers: ${first.failure}`)
  if (first.outcome !== 'failed') return first
  throw new CannotMeasureError(
    first.reading.cached
      ? 'the answer comes from a cache (Age), so requests do not reach the limiter'
      : `the answer is an error of the server, ${first.status}`
  )
}

function prepare(
  { precision }: World,
  { stated, cost, attacks, maxRequests, maxTime }: Settings,
  usual: Outgoing,
  reading: Pick<Reading, 'told'>
): Pick<AuditPlan, 'promise' | 'plan'> {
  const promise = findPromise(reading, stated)
  // A request that costs more than the quota is tried all the same.
  const quota = Math.max(1, Math.floor(promise.quota / cost))
  const terms = { quota, window: promise.window * 1000, precision }
  return { promise, plan: makePlan(attacks, terms, usual, { maxRequests, maxTime }) }
}
