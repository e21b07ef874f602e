import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import type { Outgoing } from './world.js'

/** Something in an answer that tells who asked, or what somebody may log in with. */
export interface Leak {
  /** What it is, such as `an e-mail address`. */
  readonly what: string
  /** Where it was seen. */
  readonly where: string
  readonly text: string
}

/** A piece of an answer to look at. */
export interface Place {
  readonly where: string
  readonly bytes: Uint8Array
}

const EMAIL = /[\w.+-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)+/i
/** As SDKs write API keys, and JSON Web Tokens (RFC 7519). */
const KEY = /\b(?:sk|pk|rk|ghp|gho|glpat|xox[abp]|AKIA)[-_]?[A-Za-z0-9_-]{16,}|\beyJ[\w-]+\.[\w-]+\.[\w-]+/
/** What may be an address, with what may stand around one taken off. */
const ADDRESS = /(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]*:[0-9a-f:.]*/gi

/** Addresses that requests from this machine to itself come from, as servers write them. */
const OWN_ADDRESSES = ['127.0.0.1', '::1', '::ffff:127.0.0.1']

/** Shorter ones are found by chance. */
const SHORTEST_SECRET = 6

/**
 * Makes a finder of e-mail addresses, IP addresses, keys, and what requests are authenticated with, in clear or as a hash
 * that anybody can make.
 */
export function leakFinder(request: Outgoing): (places: readonly Place[]) => Leak[] {
  const secrets = secretsOf(request)
  const digests = [...secrets, ...OWN_ADDRESSES].flatMap(digestsOf)
  return places =>
    places.flatMap(({ where, bytes }) => {
      const text = Buffer.from(bytes).toString('latin1')
      const found = inClear(text, secrets) ?? hashed(bytes, text, digests)
      return found === undefined ? [] : [{ where, ...found }]
    })
}

function inClear(text: string, secrets: readonly string[]): Omit<Leak, 'where'> | undefined {
  const secret = secrets.find(secret => text.includes(secret))
  if (secret !== undefined) return { what: 'a header of the request', text: masked(secret) }
  const email = EMAIL.exec(text)?.[0]
  if (email !== undefined) return { what: 'an e-mail address', text: email }
  const key = KEY.exec(text)?.[0]
  if (key !== undefined) return { what: 'an API key or a token', text: masked(key) }
  const address = text
    .match(ADDRESS)
    ?.flatMap(part => [part, part.replace(/^:/, '')])
    .find(part => isIP(part) !== 0 && part !== '::')
  return address === undefined ? undefined : { what: 'an IP address', text: address }
}

interface Digest {
  readonly identity: string
  readonly algorithm: string
  readonly bytes: Buffer
  /** What a shortened hash begins with at least. */
  readonly hex: string
  readonly base64: string
}

function digestsOf(identity: string): Digest[] {
  return ['sha256', 'sha1', 'md5', 'sha512'].map(algorithm => {
    const bytes = createHash(algorithm).update(identity).digest()
    const hex = bytes.toString('hex').slice(0, 12)
    return { identity, algorithm, bytes, hex, base64: bytes.toString('base64').slice(0, 16) }
  })
}

/** A hash without a secret is found by trying: there are only so many addresses. */
function hashed(
  bytes: Uint8Array,
  text: string,
  digests: readonly Digest[]
): Omit<Leak, 'where'> | undefined {
  const lower = text.toLowerCase()
  const found = digests.find(
    digest =>
      lower.includes(digest.hex) ||
      text.includes(digest.base64) ||
      (bytes.length >= SHORTEST_SECRET && digest.bytes.subarray(0, bytes.length).equals(bytes))
  )
  if (found === undefined) return undefined
  return { what: `an identifier as ${found.algorithm} without a secret`, text: masked(found.identity) }
}

/** What the values of header fields are made of: credentials without their scheme, cookies without their names. */
function secretsOf({ headers }: Outgoing): string[] {
  return Object.entries(headers)
    .filter(([name]) => !HARMLESS.has(name))
    .flatMap(([, value]) => [value, ...value.replace(SCHEME, '').split(/[\s;,=]+/), ...decoded(value)])
    .filter(part => part.length >= SHORTEST_SECRET)
}

/** Of credentials (RFC 9110 §11.4): it is no secret. */
const SCHEME = /^\w+\s+/

const HARMLESS = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'content-type',
  'origin',
  'referer',
  'user-agent'
])

/** The user and the password of Basic authentication (RFC 7617). */
function decoded(value: string): string[] {
  const [, credentials] = /^basic\s+(\S+)$/i.exec(value) ?? []
  return credentials === undefined ? [] : Buffer.from(credentials, 'base64').toString('utf8').split(':')
}

/** Enough to know it again. */
const masked = (text: string): string => (isIP(text) === 0 ? `${text.slice(0, 3)}…` : text)
