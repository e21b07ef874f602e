import type { Plan } from './plan.js'
import type { AlgorithmName, Cost, Hook } from './policy-options.js'
import type { QuotaPolicy } from './policy.js'

/** One route as `app.quota.routes()` tells it. */
export interface RouteReport {
  /** Method or methods, and the pattern with its prefix: `GET /items/:id`. */
  readonly route: string
  /** Empty for a route without quota. */
  readonly policies: readonly PolicyReport[]
}

/** What a policy counts with. */
export interface PolicyTerms {
  /** `'by request'`: it is a function of the request. */
  readonly quota: number | 'by request'
  /** Milliseconds; `undefined`: what counts at once has none. */
  readonly window: number | undefined
  /** As it is written; an exact log is `'sliding-window-log'`, however it was asked for. */
  readonly algorithm: AlgorithmName
  /** `'shadow'`: it refuses nothing. */
  readonly mode: 'enforce' | 'shadow'
}

/** One of its policies, and what it is there. */
export interface PolicyReport extends PolicyTerms {
  readonly name: string
  /** What is counted, such as `requests`. */
  readonly unit: string
  /** As it was written: `ip`, `firstOf(user, ip)`. */
  readonly partition: string
  /** Where in a request's life it is decided on this route. */
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
        ...termsOf(policy),
        unit: policy.unit,
        partition: policy.rule.label,
        hook,
        cost: policy.metered ? 'body length' : cost
      }))
    )
  }
}

/** What a policy counts with, for people. */
export const termsOf = ({ quotaOf, quota, window, algorithm, exact, shadow }: QuotaPolicy): PolicyTerms => ({
  quota: quotaOf === undefined ? quota : 'by request',
  window: window === 0 ? undefined : window,
  algorithm: (exact ? 'sliding-window-log' : algorithm.name) as AlgorithmName,
  mode: shadow ? 'shadow' : 'enforce'
})
