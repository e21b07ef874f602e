import type { Plan } from './plan.js'
import type { Cost, Hook } from './policy-options.js'

/** One route as `app.quota.routes()` tells it. */
export interface RouteReport {
  /** Method or methods, and the pattern with its prefix: `GET /items/:id`. */
  readonly route: string
  /** Empty for a route without quota. */
  readonly policies: readonly PolicyReport[]
}

export interface PolicyReport {
  readonly name: string
  /** `'by request'`: it is a function of the request. */
  readonly quota: number | 'by request'
  /** Milliseconds; `undefined`: what counts at once has none. */
  readonly window: number | undefined
  readonly unit: string
  readonly algorithm: string
  /** As it was written: `ip`, `firstOf(user, ip)`. */
  readonly partition: string
  readonly hook: Hook
  /** `'body length'`: what a policy in `content-bytes` charges unless it has a `cost`. */
  readonly cost: Cost | 'body length'
}

/** A plan for people; `undefined`: a route without quota. */
export function report(route: string, plan: Plan | undefined): RouteReport {
  const stages = plan?.stages.filter(stage => stage !== undefined) ?? []
  return {
    route,
    policies: stages.flatMap(({ hook, shares }) =>
      shares.map(({ policy, cost }) => ({
        name: policy.name,
        quota: policy.quotaOf === undefined ? policy.quota : 'by request',
        window: policy.window === 0 ? undefined : policy.window,
        unit: policy.unit,
        algorithm: policy.algorithm.name,
        partition: policy.rule.label,
        hook,
        cost: policy.metered ? 'body length' : cost
      }))
    )
  }
}
