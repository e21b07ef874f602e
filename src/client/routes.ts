import type { NamedLimit } from './named-limits.js'
import { Recent } from './recent.js'

/** The most routes that are remembered of a server. */
const MOST_ROUTES = 1000

/** What is known of requests that fall under the same policies. */
export interface Route {
  /** Whether a response has told which limits these are. */
  readonly known: boolean
  readonly limits: ReadonlySet<NamedLimit>
}

const UNKNOWN_ROUTE: Route = { known: false, limits: new Set() }

/** Which limits requests fall under, as far as responses have told. */
export class Routes {
  readonly #routes = new Recent<Route>(MOST_ROUTES)

  get(name: string): Route {
    return this.#routes.get(name) ?? UNKNOWN_ROUTE
  }

  /** `told` are all its limits. */
  set(name: string, told: Iterable<NamedLimit>): void {
    this.#routes.set(name, { known: true, limits: new Set(told) })
  }

  /** `told` are some of its limits; one for another partition of a policy takes the place of the last. */
  add(name: string, told: readonly NamedLimit[]): void {
    const kept = [...this.get(name).limits].filter(
      ({ policy }) => !told.some(limit => limit.policy === policy)
    )
    this.set(name, [...kept, ...told])
  }
}
