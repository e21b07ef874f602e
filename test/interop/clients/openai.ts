import OpenAI from 'openai'
import { packaged } from '../client.js'
import type { Client } from '../client.js'

export const openai: Client = packaged({
  name: 'OpenAI SDK',
  packages: ['openai'],
  reads: ['Retry-After'],
  legacy: 'llm',
  longWaits: 'from 7 on, ignores waits above 60 s',
  heedsHint: true,
  call: (baseURL, signal) =>
    new OpenAI({ baseURL, apiKey: 'none' }).chat.completions.create(
      { model: 'a-model', messages: [{ role: 'user', content: 'Hello' }] },
      { signal }
    )
})
