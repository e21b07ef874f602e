import { createRequire } from 'node:module'
import { paced as pace } from 'fastify-quota/client'
import { demandServed } from '../client.js'
import type { Client } from '../client.js'

const manifest = createRequire(import.meta.url)('fastify-quota/package.json') as { readonly version: string }

/** Ours, beside the others. */
export const paced: Client = {
  name: 'fastify-quota/client',
  packages: [],
  find: async () => manifest.version,
  reads: ['Retry-After', 'draft-11', 'draft-7', 'draft-6', 'X-delta', 'X-epoch', 'llm'],
  legacy: false,
  call: async (url, signal) => demandServed((await pace(fetch)(url, { signal })).status)
}
