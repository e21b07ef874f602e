import type { FastifyRequest } from 'fastify'
import { FST_QUOTA_OPTION } from './errors.js'
import { isLater } from './later.js'
import type { OperatorFaults } from './operator.js'
import type { QuotaPolicy } from './policy.js'
import type { Store } from './store.js'
import type { Whose } from './whose.js'

/**
 * What is sent as `pk` (draft-ietf-httpapi-ratelimit-headers-11 §4.1.3): nothing, a keyed digest of the partition, or a label
 * of the operator's, such as the tenant's public name; `undefined`: none for this request.
 */
export type PartitionKey =
  false | 'hash' | ((request: FastifyRequest, policy: string) => string | Uint8Array | undefined)

/** Tells the `pk` of a policy on a request; `undefined`: it has none. */
export type KeyOf = (request: FastifyRequest, policy: QuotaPolicy, whose: Whose) => Uint8Array | undefined

/** More is no label: it is sent with every response. */
const LONGEST = 128

/** @throws FST_QUOTA_OPTION for a digest where the store has no secret to make it with. */
export function createPartitionKey(
  wanted: PartitionKey,
  store: Store,
  faults: OperatorFaults
): KeyOf | undefined {
  if (wanted === false) return undefined
  if (wanted === 'hash') {
    if (store.label === undefined)
      throw new FST_QUOTA_OPTION("fastify-quota: partitionKey 'hash' needs a store with the method label")
    return (_request, policy, whose) => {
      const partition = whose(policy)
      return partition === undefined ? undefined : store.label!(`${policy.name}\0${partition}`)
    }
  }
  return (request, { name }) => {
    try {
      return bytesOf(wanted(request, name))
    } catch (error) {
      faults.report(request.log, 'partitionKey', error, 'no pk is sent')
      return undefined
    }
  }
}

/** The label may be a secret that was not meant to be one: no message shows it. */
function bytesOf(label: unknown): Uint8Array | undefined {
  if (label === undefined || label === null) return undefined
  if (isLater(label)) label.then(undefined, () => {}) // it is refused for being a promise, whatever comes of it
  const bytes = typeof label === 'string' ? new TextEncoder().encode(label) : label
  if (!(bytes instanceof Uint8Array)) {
    const got = isLater(label) ? 'a promise' : `a value of type ${typeof label}`
    throw new TypeError(`partitionKey must return a string, bytes or nothing, got ${got}`)
  }
  if (bytes.length <= LONGEST) return bytes
  throw new TypeError(`partitionKey must return at most ${LONGEST} bytes, got ${bytes.length}`)
}
