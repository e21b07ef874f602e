/** What one client has spent of two quotas, and when the windows end. */
export interface Spent {
  burst: number
  burstEnds: number
  daily: number
  dailyEnds: number
}

const MINUTE = 60_000
const DAY = 86_400_000

/**
 * The least that two quotas of one client take: a lookup, a clock and two counters. It bounds nothing, sweeps nothing, and admits
 * twice a quota in some windows; what a limiter costs beyond it is the price of its promises.
 */
export class Floor {
  readonly #clients = new Map<string, Spent>()

  /** Counts one request of a client. */
  count(client: string): Spent {
    const now = Date.now()
    let spent = this.#clients.get(client)
    if (spent === undefined) {
      spent = { burst: 0, burstEnds: now + MINUTE, daily: 0, dailyEnds: now + DAY }
      this.#clients.set(client, spent)
    }
    if (spent.burstEnds <= now) {
      spent.burst = 0
      spent.burstEnds = now + MINUTE
    }
    if (spent.dailyEnds <= now) {
      spent.daily = 0
      spent.dailyEnds = now + DAY
    }
    spent.burst++
    spent.daily++
    return spent
  }
}

/** `RateLimit` of both, of so many units each. */
export function fieldOf({ burst, daily }: Spent, quota: number): string {
  return `"burst";r=${quota - burst};t=60, "daily";r=${quota - daily};t=86400`
}

/** `RateLimit-Policy` of both. */
export const policyFieldOf = (quota: number): string => `"burst";q=${quota};w=60, "daily";q=${quota};w=86400`
