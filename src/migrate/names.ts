import { createHash } from 'node:crypto'

/** Letters and digits between slashes, from which the text can be told again. */
const PLAIN = /^(?:[A-Z]+ (?:\/|(?:\/[A-Za-z0-9]+)+)|group [A-Za-z0-9]+)$/

const LONGEST = 48

/**
 * The name of the policy that a route or a group has for itself, as clients will see it: `GET-items` of `GET /items`. It is
 * the same in all processes, and no two are alike: where letters and digits do not say it all, a digest does.
 */
export function policyName(text: string): string {
  const readable = text
    .replaceAll(/[^A-Za-z0-9]+/g, '-')
    .slice(0, LONGEST)
    .replace(/-$/, '')
  if (PLAIN.test(text) && text.length <= LONGEST) return readable
  return `${readable}.${createHash('sha256').update(text).digest('hex').slice(0, 8)}`
}
