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
  if (others.length > 0 && leftmost?.trim() === request.ip) warnings.chosenAddress()
  return true
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
