import request from 'got'
import { packaged } from '../client.js'
import type { Client } from '../client.js'

export const got: Client = packaged({
  name: 'got',
  packages: ['got'],
  reads: ['Retry-After'],
  legacy: false,
  call: (url, signal) => request(url, { signal })
})
