/**
 * The fields a script in a browser can only read if CORS exposes them, for the option `exposedHeaders` of
 * `@fastify/cors`. None of them is on the safelist of the Fetch standard.
 */
export const exposedHeaders: string[] = [
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'X-RateLimit-Limit',
  'X-RateLimit-Remaining',
  'X-RateLimit-Reset'
]
