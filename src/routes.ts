import type { Plan } from './plan.js'
import type { Cost, Hook } from './policy.js'

/** One route as `app.quota.routes()` tells it. */
export interface RouteReport {
  /** Method or methods, and the pattern with its prefix: `GET /items/:id`. */
  readonly route: string
  /** Empty for a route without quota. */
  readonly policies: readonly PolicyReport[]
}

export interface PolicyReport {
  readonly name: string
  readonly quota: number
  /** Milliseconds. */
  readonly window: number
  readonly unit: string
  readonly algorithm: string
  /** As it was written: `ip`, `firstOf(user, ip)`. */
  readonly partition: string
  readonly hook: Hook
  readonly cost: Cost
}

/** A plan for people; `undefined`: a route without quota. */
export function report(route: string, plan: Plan | undefined): RouteReport {
  const stages = plan?.stages.filter(stage => stage !== undefined) ?? []
  return {
    route,
    policies: stages.flatMap(({ hook, shares }) =>
      shares.map(({ policy, cost }) => ({
        name: policy.name,
        quota: policy.quota,
        window: policy.window,
        unit: policy.unit,
        algorithm: policy.algorithm.name,
        partition: policy.rule.label,
        hook,
        cost
      }))
    )
  }
}
