import Anthropic from '@anthropic-ai/sdk'
import { packaged } from '../client.js'
import type { Client } from '../client.js'

export const anthropic: Client = packaged({
  name: 'Anthropic SDK',
  packages: ['@anthropic-ai/sdk'],
  reads: ['Retry-After'],
  legacy: 'llm',
  heedsHint: true,
  call: (baseURL, signal) =>
    new Anthropic({ baseURL, apiKey: 'none' }).messages.create(
      { model: 'a-model', max_tokens: 1, messages: [{ role: 'user', content: 'Hello' }] },
      { signal }
    )
})
