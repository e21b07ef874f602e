import type { FastifyReply } from 'fastify'
import { joinField } from './fields.js'

// Fields that others may write too: each is a list, and ours are some of its members.

/** Puts `own` where `before` stands in a field, or at its end; the values of others stay. Returns `own`. */
export function replace(reply: FastifyReply, name: string, before: string, own: string): string {
  const value = reply.getHeader(name)
  if (value === undefined || value === before) {
    if (own !== '') reply.header(name, own)
    else if (value !== undefined) reply.removeHeader(name)
    return own
  }
  const current = textOf(reply, name)
  const [ahead, behind] = around(current, before) ?? [current, '']
  reply.header(name, joinField([ahead, own], behind))
  return own
}

/** Joins `own` to a field whose value somebody has replaced since; a field that somebody has removed stays away. */
export function restore(reply: FastifyReply, name: string, own: string): void {
  if (own === '' || reply.getHeader(name) === own) return
  const current = textOf(reply, name)
  if (current !== '' && around(current, own) === undefined) reply.header(name, joinField(current, own))
}

/** As {@link restore}, in a `Response`, whose own fields cannot be changed: it or another one. */
export function restored(
  response: Response,
  ours: readonly (readonly [name: string, own: string])[]
): Response {
  const headers = new Headers(response.headers)
  let changed = false
  for (const [name, own] of ours) {
    const current = headers.get(name)
    if (own === '' || current === null || around(current, own) !== undefined) continue
    headers.set(name, joinField(current, own))
    changed = true
  }
  if (!changed || response.bodyUsed) return response
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers })
}

/** The text of a field; `''`: it is not set. */
export function textOf(reply: FastifyReply, name: string): string {
  const value = reply.getHeader(name)
  if (value === undefined) return ''
  return typeof value === 'string' ? value : joinField(value, '')
}

/** What stands before and behind `own`, which is one or more whole members of a field; `undefined`: it is not there. */
function around(field: string, own: string): readonly [ahead: string, behind: string] | undefined {
  if (own === '') return undefined
  for (let at = field.indexOf(own); at >= 0; at = field.indexOf(own, at + 1)) {
    const ahead = field.slice(0, at).trimEnd()
    const behind = field.slice(at + own.length).trimStart()
    // `"a";r=1` is no member of `"a";r=10`
    if ((ahead === '' || ahead.endsWith(',')) && (behind === '' || behind.startsWith(','))) {
      return [ahead.slice(0, -1), behind.slice(1).trimStart()]
    }
  }
  return undefined
}
