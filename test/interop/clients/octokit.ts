import { Octokit } from '@octokit/core'
import { retry } from '@octokit/plugin-retry'
import { throttling } from '@octokit/plugin-throttling'
import { packaged } from '../client.js'
import type { Client } from '../client.js'

const RETRIES = 2

const PatientOctokit = Octokit.plugin(throttling, retry)

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

const goOn = (_wait: number, _options: object, _octokit: Octokit, retryCount: number): boolean =>
  retryCount < RETRIES

export const octokit: Client = packaged({
  name: 'Octokit throttling, retry',
  packages: ['@octokit/plugin-throttling', '@octokit/plugin-retry', '@octokit/core'],
  reads: ['X-epoch'],
  legacy: { style: 'x-ratelimit', reset: 'epoch' },
  call: (url, signal) => {
    // Octokits of one id queue behind each other.
    const throttle = { id: url, onRateLimit: goOn, onSecondaryRateLimit: goOn }
    return new PatientOctokit({ baseUrl: url, log: silent, throttle }).request('GET /', {
      request: { signal }
    })
  }
})
