import type { FastifyRequest } from 'fastify'
import { NO_ADDRESS } from './address.js'
import type { Addressing } from './address.js'
import { FST_QUOTA_SUBJECT } from './errors.js'
import { show, suggestion } from './options.js'
import { identityPart } from './partition.js'
import type { Parts } from './partition.js'
import type { QuotaPolicy } from './policy.js'

/**
 * Whose quota a call is about: a request, or its identities, such as `{ user: '42' }`, `{ ip: '203.0.113.9' }`,
 * `{ route: 'GET /items' }`. Identities that are left out are empty, as on a request without them.
 */
export type Subject = FastifyRequest | Readonly<Record<string, string>>

/** The request that a subject is; `undefined`: it is written by hand. @throws FST_QUOTA_SUBJECT for neither. */
export function requestOf(subject: Subject): FastifyRequest | undefined {
  if (typeof subject !== 'object' || (subject as Subject | null) === null || Array.isArray(subject)) {
    throw new FST_QUOTA_SUBJECT(
      `a subject is a request, or identities such as { user: '42' }, got ${show(subject)}`
    )
  }
  return typeof subject.raw === 'object' ? (subject as FastifyRequest) : undefined
}

/**
 * The partition in which a policy counts a subject.
 * @throws FST_QUOTA_SUBJECT when the subject lacks what the policy counts by.
 */
export function partitionOf({ name, rule }: QuotaPolicy, parts: Parts): string {
  try {
    return rule.resolve(parts)
  } catch (error) {
    if (!(error instanceof FST_QUOTA_SUBJECT)) throw error
    throw new FST_QUOTA_SUBJECT(`policy "${name}" counts by ${rule.label}: ${(error as Error).message}`)
  }
}

/** The parts of a subject that is written by hand. Nothing that is missing is invented. */
export class SubjectParts implements Parts {
  readonly identities: readonly (string | undefined)[]
  readonly #subject: Readonly<Record<string, string>>
  readonly #addressing: Addressing

  constructor(
    subject: Readonly<Record<string, string>>,
    identities: readonly string[],
    addressing: Addressing
  ) {
    const known = ['ip', 'route', ...identities]
    for (const name of Object.keys(subject)) {
      if (known.includes(name)) continue
      const hint = suggestion(name, known) || `; expected ${known.join(', ')}`
      throw new FST_QUOTA_SUBJECT(`a subject has no identity ${show(name)}${hint}`)
    }
    this.#subject = subject
    this.#addressing = addressing
    this.identities = identities.map(name => this.#identity(name))
  }

  get address(): string {
    const address = this.#addressing(this.#required('ip'), undefined)
    if (address === NO_ADDRESS) throw new FST_QUOTA_SUBJECT("the subject's ip is no address")
    return address
  }

  get route(): string {
    return `route:${this.#required('route').replace(/^HEAD /, 'GET ')}`
  }

  #identity(name: string): string | undefined {
    try {
      return identityPart(name, this.#value(name))
    } catch {
      throw new FST_QUOTA_SUBJECT(`identity ${show(name)} of a subject must be a string`)
    }
  }

  #value(name: string): string | undefined {
    return Object.hasOwn(this.#subject, name) ? this.#subject[name] : undefined
  }

  #required(name: string): string {
    const value = this.#value(name)
    if (typeof value === 'string' && value !== '') return value
    // Names only: an identity may be a secret.
    const got = Object.keys(this.#subject).join(', ') || 'nothing'
    throw new FST_QUOTA_SUBJECT(`the subject needs ${show(name)}, got ${got}`)
  }
}
