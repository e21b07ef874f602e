import type { Client } from '../client.js'
import { anthropic } from './anthropic.js'
import * as axiosRetry from './axios-retry.js'
import { retryableHttp } from './go.js'
import { got } from './got.js'
import { ky } from './ky.js'
import { octokit } from './octokit.js'
import { openai } from './openai.js'
import { paced } from './paced.js'
import { requests, urllib3 } from './python.js'
import { retryAgent, retryInterceptor } from './undici.js'

export const clients: readonly Client[] = [
  paced,
  retryAgent,
  retryInterceptor,
  got,
  ky,
  axiosRetry.plain,
  axiosRetry.exponential,
  octokit,
  openai,
  anthropic,
  urllib3,
  requests,
  retryableHttp
]
