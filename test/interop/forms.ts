import type { Legacy, QuotaOptions } from 'fastify-quota'

/** The ways to tell a client of its wait: `Retry-After`, the draft's fields, and the older ones. */
export type FormName = 'Retry-After' | 'draft-11' | 'draft-7' | 'draft-6' | 'X-delta' | 'X-epoch' | 'llm'

export interface Form {
  readonly name: FormName
  /** Has a server send it. */
  readonly options: Pick<QuotaOptions, 'fields' | 'legacy'>
  /** The names of its fields. */
  readonly fields: RegExp
}

const DRAFT = /^ratelimit/
const X_RATELIMIT = /^x-ratelimit-/

export const forms: readonly Form[] = [
  { name: 'Retry-After', options: {}, fields: /^retry-after$/ },
  { name: 'draft-11', options: {}, fields: DRAFT },
  { name: 'draft-7', options: only('draft-7'), fields: DRAFT },
  { name: 'draft-6', options: only('draft-6'), fields: DRAFT },
  { name: 'X-delta', options: only({ style: 'x-ratelimit', reset: 'delta' }), fields: X_RATELIMIT },
  { name: 'X-epoch', options: only({ style: 'x-ratelimit', reset: 'epoch' }), fields: X_RATELIMIT },
  { name: 'llm', options: only('llm'), fields: X_RATELIMIT }
]

function only(legacy: Legacy): Form['options'] {
  return { fields: false, legacy }
}
