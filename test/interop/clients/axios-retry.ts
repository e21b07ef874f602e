import axios from 'axios'
import retry, { exponentialDelay } from 'axios-retry'
import type { IAxiosRetryConfig } from 'axios-retry'
import { packaged } from '../client.js'
import type { Client } from '../client.js'

const axiosRetry = (name: string, config: IAxiosRetryConfig): Client =>
  packaged({
    name,
    packages: ['axios-retry', 'axios'],
    reads: ['Retry-After'],
    legacy: false,
    call: (url, signal) => {
      const client = axios.create()
      retry(client, config)
      return client.get(url, { signal })
    }
  })

export const plain: Client = axiosRetry('axios-retry', {})

export const exponential: Client = axiosRetry('axios-retry, exponential', { retryDelay: exponentialDelay })
