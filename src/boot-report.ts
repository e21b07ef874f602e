import type { FastifyBaseLogger } from 'fastify'
import type { Settings } from './settings.js'
import type { Advice } from './warnings.js'

/** What a server has to say of itself when it is ready. */
export interface Booted {
  /** Routes with a policy, and policies. */
  readonly limited: number
  /** Whether routes were declared before the plugin was loaded; they are limited, and not among those that are counted. */
  readonly early: boolean
  readonly policies: number
  /** All that was warned of until now. */
  readonly warnings: readonly Advice[]
}

/** Routes that are named. */
const NAMED = 20

/** Names of routes, the first of them if there are many. */
export function named(routes: readonly string[]): string {
  const more = routes.length > NAMED ? `, and ${routes.length - NAMED} more` : ''
  return `${routes.slice(0, NAMED).join(', ')}${more}`
}

/** Logs a line of what a server limits, by what, and what is unwise about it. */
export function reportBoot(
  log: FastifyBaseLogger,
  { store, fields, legacy }: Pick<Settings, 'store' | 'fields' | 'legacy'>,
  { limited, early, policies, warnings }: Booted
): void {
  const told = [fields ? 'draft-11' : undefined, legacyName(legacy)].filter(form => form !== undefined)
  const where = store.name ?? 'a store of your own'
  const line = { routes: limited, policies, store: where, fields: told, warnings }
  log.info(
    line,
    `fastify-quota: ${plural(limited, 'route')} with quota${early ? ' besides those declared before it' : ''}, ${plural(policies, 'policy')}, counted in ${where}`
  )
}

const legacyName = (legacy: Settings['legacy']): string | undefined =>
  legacy === false ? undefined : typeof legacy === 'string' ? legacy : legacy.style

const plural = (count: number, noun: 'route' | 'policy'): string =>
  count === 1 ? `1 ${noun}` : `${count} ${noun === 'policy' ? 'policies' : 'routes'}`
