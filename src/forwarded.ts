import type { FastifyRequest } from 'fastify'
import type { Warnings } from './warnings.js'

/**
 * Looks at how the app trusts proxies, at the first request that came through one. The address itself is Fastify's
 * business: forwarded headers are never read for it.
 * @returns whether the request carried a forwarded header.
 */
export function checkForwarding(request: FastifyRequest, warnings: Warnings): boolean {
  const chain = request.headers['x-forwarded-for']
  const header = chain === undefined ? request.headers['forwarded'] : chain
  if (header === undefined) return false
  if (request.ips === undefined || request.ips.length === 1) {
    warnings.untrustedForwarding(chain === undefined ? 'Forwarded' : 'X-Forwarded-For')
    return true
  }
  const [leftmost, ...others] = String(chain).split(',')
  if (others.length > 0 && leftmost?.trim() === request.ip) warnings.chosenAddress()
  return true
}
