import processWarning from 'process-warning'
import type { Advice } from '../warnings.js'
import type { Written } from './theirs.js'

/** An option of theirs. */
export type Leftover =
  | 'ban'
  | 'onBanReach'
  | 'continueExceeding'
  | 'exponentialBackoff'
  | 'cache'
  | 'groupId'
  | 'nameSpace'
  | 'redis'
  | 'hook'

/** What is not carried over, and what there is instead. */
const ADVICE: Readonly<Record<Leftover, string>> = {
  ban: 'refusals keep the status 429; count them in onRefused, and shut out where you see fit',
  onBanReach: 'nobody is banned; count refusals in onRefused',
  continueExceeding: 'refused requests cost nothing, and a wait that was told is not made longer',
  exponentialBackoff: 'a wait that was told is not made longer',
  cache:
    'all routes share one store of 100000 partitions; another size is `store: memoryStore({ maxPartitions })`',
  groupId: 'on the plugin it has no effect; it belongs to routes',
  nameSpace: 'Redis keys begin with `q1`; the prefix of redisStore is 1 to 32 of A-Z a-z 0-9 . _ -',
  redis: 'what Redis has counted so far is not read; all begin with a whole quota',
  hook: 'the limit is decided where the plugin is registered among hooks of that name: register it behind those that set what keyGenerator reads'
}

/** What was written and is not carried over. */
export class Leftovers {
  readonly #places = new Map<Leftover, string[]>()

  add(place: string, names: readonly Leftover[]): void {
    for (const name of names) this.#places.set(name, [...(this.#places.get(name) ?? []), place])
  }

  /** A piece of advice for each. */
  get advice(): readonly Advice[] {
    return [...this.#places].map(([name, places]) => {
      const shown = places.length > 3 ? [...places.slice(0, 3), '…'] : places
      return {
        code: 'FST_QUOTA_NOT_CARRIED',
        message: `fromFastifyRateLimit: ${name} (${shown.join(', ')}) is not carried over as it is: ${ADVICE[name]}`
      }
    })
  }
}

/** What is not carried over of the options in one place. */
export function leftoversOf(written: Written): readonly Leftover[] {
  const { ban, hook, keyGenerator } = written
  const left: Leftover[] = []
  if (typeof ban === 'number' && ban >= 0) left.push('ban')
  if (written['onBanReach'] !== undefined) left.push('onBanReach')
  if (written['continueExceeding'] === true) left.push('continueExceeding')
  if (written['exponentialBackoff'] === true) left.push('exponentialBackoff')
  if (written['cache'] !== undefined) left.push('cache')
  if (keyGenerator !== undefined && hook !== undefined && hook !== 'onRequest') left.push('hook')
  return left
}

/** The warning that each app gets once, when it has such a route. */
export function createDeprecation(): (route: string) => void {
  const deprecation = processWarning.createDeprecation({
    code: 'FST_QUOTA_RATE_LIMIT',
    message: 'config.rateLimit is read as long as you move, on %s first: write config.quota instead'
  })
  return route => deprecation(route)
}
