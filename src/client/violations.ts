/** The longest problem document that is read. */
export const LONGEST_PROBLEM = 65_536

/** Whether a refusal's body may name the policies that refused (RFC 9457; a charset may follow). */
export const isProblem = (contentType: string | null | undefined): boolean =>
  /^application\/problem\+json\s*(?:;|$)/i.test(contentType ?? '')

/**
 * The names of the policies that refused, from the member `violated-policies` of a problem document (draft §5);
 * `undefined`: it names none.
 */
export function violatedPolicies(body: string): readonly string[] | undefined {
  const names = memberOf(body)
  if (!Array.isArray(names)) return undefined
  const policies = names.filter((name): name is string => typeof name === 'string')
  return policies.length > 0 ? policies : undefined
}

function memberOf(body: string): unknown {
  try {
    return (JSON.parse(body) as { readonly 'violated-policies'?: unknown } | null)?.['violated-policies']
  } catch {
    return undefined
  }
}
