import Fastify from 'fastify'
import quota from 'fastify-quota'
import type { FastifyInstance } from 'fastify'

/** Who is believed when it says whom a request is from: addresses of proxies, all of a chain. */
export const PROXIES: Readonly<Record<'local' | 'alb' | 'cloudflare', string[]>> = {
  // nginx or Caddy on the same machine.
  local: ['127.0.0.1', '::1'],
  // A load balancer of AWS has addresses of the subnets it is in.
  alb: ['10.0.0.0/16'],
  // Cloudflare before an nginx on the same machine: the ranges that Cloudflare publishes, of which these are two.
  cloudflare: ['127.0.0.1', '::1', '173.245.48.0/20', '2400:cb00::/32']
}

/** Tells clients the address that they are counted by. */
export async function build(proxies: string[]): Promise<FastifyInstance> {
  const app = Fastify({ trustProxy: proxies })

  await app.register(quota, { policies: { default: { quota: 1, window: '1m' } } })

  app.get('/', request => ({ you: request.ip }))

  return app
}
