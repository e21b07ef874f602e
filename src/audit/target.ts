import { isIP } from 'node:net'
import { show } from '../options.js'
import type { Refuse } from '../options.js'

/** Where requests go. */
export interface Target {
  /** Such as `http://127.0.0.1:3000`. */
  readonly origin: string
  /** Path and query. */
  readonly path: string
}

/**
 * Reads a URL, and makes sure that nobody attacks what is not theirs by a slip: another host than this machine has to be
 * named a second time.
 *
 * @param ownHost the host that the user says is theirs.
 */
export function readTarget(refuse: Refuse, url: unknown, ownHost: string | undefined): Target {
  const parsed = parse(url)
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol)) {
    return refuse(
      `the URL must be one of http: or https:, such as http://127.0.0.1:3000/items, got ${show(url)}`
    )
  }
  if (parsed.username !== '' || parsed.password !== '') {
    return refuse('the URL must have no user and no password, which would be printed; send a header')
  }
  const host = parsed.hostname.replace(/^\[(.*)\]$/, '$1')
  if (!isLoopback(host) && ownHost?.toLowerCase() !== host) {
    return refuse(
      `only a server of your own may be attacked, and ${show(host)} is not this machine: ` +
        `say that it is yours with --i-own-this-host ${host} (ownHost)` +
        (ownHost === undefined ? '' : `, got ${show(ownHost)}`)
    )
  }
  return { origin: parsed.origin, path: parsed.pathname + parsed.search }
}

function parse(url: unknown): URL | undefined {
  if (url instanceof URL) return url
  // `localhost:3000` would be a URL of the scheme `localhost`.
  return typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
}

/** This machine (RFC 6761 §6.3, RFC 1122 §3.2.1.3, RFC 4291 §2.5.3). The URL parser has made other spellings these. */
function isLoopback(host: string): boolean {
  if (isIP(host) === 0) return host === 'localhost' || host.endsWith('.localhost')
  return host === '::1' || host.startsWith('127.') || /^::ffff:7f[0-9a-f]{2}:/.test(host)
}
