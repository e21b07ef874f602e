import { FST_QUOTA_OPTION } from './errors.js'
import { show, suggestion } from './options.js'

const combination: unique symbol = Symbol('fastify-quota.combination')

/**
 * Who a quota belongs to: each client address (`'ip'`), everybody together (`'global'`), each route (`'route'`), each
 * value of an identity (its name in the option `identify`), or a combination of these.
 *
 * An identity that is empty counts by address instead, so there is never one quota for all who have no name.
 */
export type Partition = 'ip' | 'global' | 'route' | (string & {}) | FirstOf | AllOf

/** Made by {@link firstOf}. */
export interface FirstOf {
  readonly [combination]: 'firstOf'
  readonly of: readonly Partition[]
}

/** Made by {@link allOf}. */
export interface AllOf {
  readonly [combination]: 'allOf'
  readonly of: readonly Partition[]
}

/**
 * Counts by the first of these that is not empty, or by address if all are. `firstOf('user', 'ip')` has a quota for each
 * user, and one for each address among requests without a user.
 *
 * @throws {FST_QUOTA_OPTION} for fewer than two partitions, or something that is none.
 */
export function firstOf(...of: readonly Partition[]): FirstOf {
  const alternatives = members('firstOf', of)
  const last = alternatives.findIndex(member => RESERVED.includes(member as string))
  if (last >= 0 && last < alternatives.length - 1) {
    const name = label(alternatives[last]!)
    throw new FST_QUOTA_OPTION(`firstOf never gets past "${name}", which is never empty: write it last`)
  }
  return Object.freeze({ [combination]: 'firstOf', of: alternatives } as const)
}

/**
 * Counts by all of these together. `allOf('user', 'route')` has a quota for each user on each route. An empty identity
 * among them counts by address; if nothing but empty identities is left, the whole is empty.
 *
 * @throws {FST_QUOTA_OPTION} for fewer than two partitions, or something that is none.
 */
export function allOf(...of: readonly Partition[]): AllOf {
  return Object.freeze({ [combination]: 'allOf', of: members('allOf', of) } as const)
}

/** What is known about one request. */
export interface Parts {
  /** The part made by `address.ts`, such as `ip:203.0.113.9`; never empty. */
  readonly address: string
  /** The part made by {@link routePart}; never empty. */
  readonly route: string
  /** The parts made by {@link identityPart} in the order of the option `identify`; `undefined` where one is empty. */
  readonly identities: readonly (string | undefined)[]
}

/** A partition, compiled. */
export interface PartitionRule {
  /** The partition as people write it: `ip`, `firstOf(user, ip)`. */
  readonly label: string
  /** Indices of the identities it may read, each once. */
  readonly identities: readonly number[]
  /** The string under which the request is counted; different partitions never have the same. */
  resolve(parts: Parts): string
}

type Resolve = PartitionRule['resolve']

/**
 * Compiles a policy's `partition`; `names` are those of the option `identify`, in its order.
 *
 * @throws {FST_QUOTA_OPTION} for what is no partition, and for a name that is not among `names`.
 */
export function compilePartition(partition: unknown, names: readonly string[]): PartitionRule {
  const valid = checked('partition', partition, names)
  const used = new Set(leaves(valid))
  for (const name of used) checkName(name, names)
  return Object.freeze({
    label: label(valid),
    identities: Object.freeze(names.flatMap((name, index) => (used.has(name) ? [index] : []))),
    resolve: resolver(valid, names, byAddress)
  })
}

/**
 * The part of a partition that stands for an identity, such as `user:42`; `undefined` if `value` is `undefined`, `null`
 * or `''`. `name` is one that {@link checkIdentityName} accepts.
 *
 * @throws {TypeError} unless `value` is empty, a string, a finite number or a bigint.
 */
export function identityPart(name: string, value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined
  const isName = typeof value === 'string' || typeof value === 'bigint'
  if (isName || (typeof value === 'number' && Number.isFinite(value))) return `${name}:${value}`
  throw new TypeError(
    `identify.${name} must return a string, a finite number, a bigint or nothing, got ${typeName(value)}`
  )
}

/**
 * The part of a partition that stands for a route, such as `route:GET /items/:id`. `pattern` is the matched one with its
 * prefix, or `undefined` for a request that matched none: all of these are one route. HEAD counts as GET.
 */
export function routePart(method: string, pattern: string | undefined): string {
  if (pattern === undefined) return 'route:404'
  return `route:${method === 'HEAD' ? 'GET' : method} ${pattern}`
}

const IDENTITY_NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/
const RESERVED: readonly string[] = ['ip', 'global', 'route']

/**
 * Checks a name of the option `identify`: `^[A-Za-z][A-Za-z0-9_-]{0,63}$`, and none of `ip`, `global`, `route`.
 *
 * @throws {FST_QUOTA_OPTION} for any other.
 */
export function checkIdentityName(name: string): void {
  if (RESERVED.includes(name)) {
    throw new FST_QUOTA_OPTION(`fastify-quota: identify cannot define "${name}": it is a partition already`)
  }
  if (IDENTITY_NAME.test(name)) return
  throw new FST_QUOTA_OPTION(
    `fastify-quota: a name in identify must be a letter and up to 63 letters, digits, "_" or "-", got ${JSON.stringify(name)}`
  )
}

function members(name: string, of: readonly unknown[]): readonly Partition[] {
  if (of.length < 2) throw new FST_QUOTA_OPTION(`${name} takes two partitions or more, got ${of.length}`)
  const members = of.map(member => checked(name, member))
  const twin = members.find((member, i) => members.indexOf(member) !== i)
  if (twin !== undefined)
    throw new FST_QUOTA_OPTION(`${name} takes each partition once, got ${label(twin)} twice`)
  return Object.freeze(members)
}

function checked(where: string, value: unknown, names?: readonly string[]): Partition {
  if (isPartition(value)) return value
  const hint =
    typeof value === 'function' ? '; functions of the request belong in identify, under a name' : ''
  throw new FST_QUOTA_OPTION(`${where} takes ${expected(names)}, got ${typeName(value)}${hint}`)
}

function isPartition(value: unknown): value is Partition {
  return typeof value === 'string' || (typeof value === 'object' && value !== null && combination in value)
}

function checkName(name: string, names: readonly string[]): void {
  const known = [...RESERVED, ...names]
  if (known.includes(name)) return
  throw new FST_QUOTA_OPTION(
    `partition takes ${expected(names)}, got ${show(name)}${suggestion(name, known)}`
  )
}

function expected(names?: readonly string[]): string {
  const list = names ? ` (${names.join(', ') || 'which has none'})` : ''
  return `'ip', 'global', 'route', a name of identify${list}, firstOf(…) or allOf(…)`
}

/** A value's type in words; the value may be a secret. */
function typeName(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (typeof value === 'number' && !Number.isFinite(value)) return 'a number that is not finite'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}

function label(partition: Partition): string {
  if (typeof partition === 'string') return partition
  return `${partition[combination]}(${partition.of.map(label).join(', ')})`
}

/** All strings in a partition. */
function leaves(partition: Partition): readonly string[] {
  return typeof partition === 'string' ? [partition] : partition.of.flatMap(leaves)
}

/** Resolves a partition, and `otherwise` where it is empty. */
function resolver(partition: Partition, names: readonly string[], otherwise: Resolve): Resolve {
  if (typeof partition === 'string') return single(partition, names, otherwise)
  if (partition[combination] === 'allOf') return together(partition.of, names, otherwise)
  return partition.of.reduceRight<Resolve>((next, member) => resolver(member, names, next), otherwise)
}

function single(partition: string, names: readonly string[], otherwise: Resolve): Resolve {
  if (partition === 'ip') return byAddress
  if (partition === 'route') return byRoute
  if (partition === 'global') return everybody
  const index = names.indexOf(partition)
  return parts => parts.identities[index] ?? otherwise(parts)
}

function together(of: readonly Partition[], names: readonly string[], otherwise: Resolve): Resolve {
  const tuple = joined(of.map(member => resolver(member, names, byAddress)))
  const used = of.flatMap(leaves)
  if (RESERVED.some(name => used.includes(name))) return tuple
  const indices = used.map(name => names.indexOf(name))
  return parts =>
    indices.some(index => parts.identities[index] !== undefined) ? tuple(parts) : otherwise(parts)
}

/** Each part after its length: `7:user:4213:route:GET /x`. A part that is no tuple starts with a letter. */
function joined(members: readonly Resolve[]): Resolve {
  return parts => {
    const tuple: string[] = []
    for (const resolve of members) {
      const part = resolve(parts)
      tuple.push(String(part.length), ':', part)
    }
    return tuple.join('')
  }
}

function byAddress(parts: Parts): string {
  return parts.address
}

function byRoute(parts: Parts): string {
  return parts.route
}

function everybody(): string {
  return 'global'
}
