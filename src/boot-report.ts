import type { FastifyBaseLogger } from 'fastify'
import type { Settings } from './settings.js'

/** What a server has to say of itself when it is ready. */
export interface Booted {
  /** Routes with a policy, and policies. */
  readonly limited: number
  /** Whether routes were declared before the plugin was loaded; they are limited, and not among those that are counted. */
  readonly early: boolean
  readonly policies: number
  /** Routes that have no policy, although nobody has said `quota: false`. */
  readonly unlimited: readonly string[]
  /** Codes of what was warned of about routes. */
  readonly warnings: readonly string[]
}

/** Routes that a line names. */
const NAMED = 20

/** Logs a line of what a server limits, and by what; and one that names the routes without a policy, if there are any. */
export function reportBoot(
  log: FastifyBaseLogger,
  { store, fields, legacy }: Pick<Settings, 'store' | 'fields' | 'legacy'>,
  { limited, early, policies, unlimited, warnings }: Booted
): void {
  const told = [fields ? 'draft-11' : undefined, legacyName(legacy)].filter(form => form !== undefined)
  const where = store.name ?? 'a store of your own'
  const line = { routes: limited, policies, store: where, fields: told, warnings }
  log.info(
    line,
    `fastify-quota: ${plural(limited, 'route')} with quota${early ? ' besides those declared before it' : ''}, ${plural(policies, 'policy')}, counted in ${where}`
  )
  if (unlimited.length === 0) return
  const more = unlimited.length > NAMED ? `, and ${unlimited.length - NAMED} more` : ''
  log.warn(
    `fastify-quota: no policy limits ${unlimited.slice(0, NAMED).join(', ')}${more}, for none is a default there: name one in ` +
      'config.quota, or write quota: false'
  )
}

const legacyName = (legacy: Settings['legacy']): string | undefined =>
  legacy === false ? undefined : typeof legacy === 'string' ? legacy : legacy.style

const plural = (count: number, noun: 'route' | 'policy'): string =>
  count === 1 ? `1 ${noun}` : `${count} ${noun === 'policy' ? 'policies' : 'routes'}`
