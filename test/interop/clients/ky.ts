import request from 'ky'
import { packaged } from '../client.js'
import type { Client } from '../client.js'

export const ky: Client = packaged({
  name: 'ky',
  packages: ['ky'],
  reads: ['Retry-After', 'draft-6', 'X-delta', 'X-epoch'],
  legacy: 'draft-6',
  // It would stop after 10 s with a timeout otherwise, waits included.
  call: (url, signal) => request(url, { signal, timeout: false })
})
