import type { FastifyRequest } from 'fastify'
import type { Warnings } from './warnings.js'

/**
 * Looks at how the app trusts proxies, at the first request that came through one. The address itself is Fastify's
 * business: forwarded headers are never read for it.
 * @returns whether the request carried a forwarded header.
 */
export function checkForwarding(request: FastifyRequest, warnings: Warnings): boolean {
  if (!isForwarded(request.raw.rawHeaders)) return false
  const chain = request.headers['x-forwarded-for']
  if (request.ips === undefined || request.ips.length === 1) {
    warnings.untrustedForwarding(chain === undefined ? 'Forwarded' : 'X-Forwarded-For')
    return true
  }
  const [leftmost, ...others] = String(chain).split(',')
  if ((others.length > 0 && leftmost?.trim() === request.ip) || believesAnybody(request))
    warnings.chosenAddress()
  return true
}

/** Addresses of documentation (RFC 5737), which no proxy has, in a chain longer than any of proxies. */
const NOBODY = '192.0.2.1'
const MADE_UP = NOBODY + ', 198.51.100.1'.repeat(32)

/**
 * Whether the app believes whatever a client writes: most clients write nothing, so their chains do not tell. A `trustProxy`
 * that is a function is asked about addresses that it cannot expect.
 */
function believesAnybody(request: FastifyRequest): boolean {
  const { socket } = request.raw
  const asked = Object.create(request, {
    raw: { value: { headers: { 'x-forwarded-for': MADE_UP }, socket } }
  }) as FastifyRequest
  try {
    return asked.ip === NOBODY
  } catch {
    return false
  }
}

const NAMES = ['forwarded', 'x-forwarded-for']

/** Looks at names and values as they came: most requests need no object of their headers. */
function isForwarded(headers: readonly string[]): boolean {
  for (let i = 0; i < headers.length; i += 2) {
    const { length } = headers[i]!
    if ((length === 9 || length === 15) && NAMES.includes(headers[i]!.toLowerCase())) return true
  }
  return false
}
