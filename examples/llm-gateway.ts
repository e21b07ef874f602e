import { once } from 'node:events'
import { build } from './llm-gateway/app.js'
import { serving } from './serving.js'

/* Serves the gateway of llm-gateway/app.ts. The model behind it is a pretence; everything about quota is real. */

await serving(build, async (origin, stop) => {
  console.log(invitation(origin))
  await once(stop, 'abort')
})

function invitation(origin: string): string {
  const chat = `${origin}/chat -H 'authorization: Bearer token-of-ann' -H 'content-type: application/json'`
  return `A gateway to a language model listens on ${origin}: 60 requests and 100000 tokens a minute for each API key.

An answer, as it is produced; the last event tells what it took and what is left:

  curl -iN ${chat} -d '{"prompt":"What is a quota?"}'

What is left:

  curl ${origin}/usage -H 'authorization: Bearer token-of-ann'

Four requests of 30000 tokens: the fourth is refused by tpm, and rpm is not charged for it.

  for i in 1 2 3 4; do printf '{"prompt":"%s","max_tokens":10}' "$(printf ' a%.0s' $(seq 29990))" |
    curl -s -o /dev/null -D - ${chat} -d @- | grep -iE '^(HTTP|ratelimit:|retry-after)'; done

Seventy small ones at once, with another key: sixty pass, the others are refused by rpm.

  for i in $(seq 70); do curl -s -o /dev/null -w '%{http_code}\\n' ${chat.replace('ann', 'ben')} \\
    -d '{"prompt":"one two three four five","max_tokens":5}' & done | sort | uniq -c

Ctrl-C ends it.`
}
