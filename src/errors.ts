import createError from '@fastify/error'
import type { FastifyErrorConstructor } from '@fastify/error'

type OneMessage = FastifyErrorConstructor<{ code: string }, [string]>

/** What was thrown, as an error: Fastify goes on with a request that fails with nothing. */
export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error('a request could not be decided', { cause: thrown })
}

/** A plugin option, or a value given to a function of the plugin, is not what it has to be. */
export const FST_QUOTA_OPTION: OneMessage = createError('FST_QUOTA_OPTION', '%s')

/** A policy is written wrongly, is unknown, or has the name of another one. */
export const FST_QUOTA_POLICY: OneMessage = createError('FST_QUOTA_POLICY', '%s')

/** The `quota` in a route's `config` is written wrongly. */
export const FST_QUOTA_ROUTE: OneMessage = createError('FST_QUOTA_ROUTE', '%s')

/** The subject of a call lacks an identity that a policy counts by. */
export const FST_QUOTA_SUBJECT: OneMessage = createError('FST_QUOTA_SUBJECT', '%s')

/** A charge is settled a second time. */
export const FST_QUOTA_SETTLED: OneMessage = createError('FST_QUOTA_SETTLED', '%s')

/** A store answers with an error that waiting does not mend, such as one of access; logged, never thrown. */
export const FST_QUOTA_STORE: OneMessage = createError('FST_QUOTA_STORE', '%s')
