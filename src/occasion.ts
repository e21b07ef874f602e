import { joinField } from './fields.js'
import type { Decision } from './decision.js'
import { advertised, policyField } from './plan.js'
import type { QuotaPolicy } from './policy.js'
import type { Occasion } from './response.js'
import type { Visit } from './visit.js'
import { whoseAt, whoseIn } from './whose.js'
import type { Whose } from './whose.js'

type Visited = Pick<Visit, 'plan' | 'decision' | 'places'>

/** What the responses of a request are about, whose route has a plan. */
export class OwnOccasion implements Occasion {
  readonly #visited: Visited

  constructor(visited: Visited) {
    this.#visited = visited
  }

  get policyField(): string {
    const { plan, decision } = this.#visited
    return plan!.policyField(decision.limits)
  }

  get whose(): Whose {
    return whoseAt(this.#visited.places)
  }

  policies(): readonly QuotaPolicy[] {
    const { plan, decision } = this.#visited
    return plan!.listed(decision.limits)
  }
}

/** The same, for a refusal that code has asked for: it names no policy that is not listed, so those of other routes join. */
export function joinedOccasion({ plan, decision: decided }: Visited, decision: Decision): Occasion {
  const limits = [...decided.limits, ...decision.limits]
  const own = plan?.policies ?? []
  const others = advertised(limits.map(({ policy }) => policy)).filter(policy =>
    own.every(({ name }) => name !== policy.name)
  )
  return {
    policyField: joinField(plan?.policyField(limits), policyField(others)),
    policies: () => [...(plan?.listed(limits) ?? []), ...others],
    whose: whoseIn(decision)
  }
}
