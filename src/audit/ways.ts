import type { Outgoing } from './world.js'

/** Another way to ask for the same, which a limiter may take for something else. */
export interface Way {
  readonly name: string
  /** As words. */
  readonly about: string
  /** The request for it, the `index`-th of its kind; `undefined`: there is no such way to this target. */
  readonly request: (usual: Outgoing, index: number) => Outgoing | undefined
}

/** Addresses for documentation (RFC 5737), of which nobody has one. */
const ADDRESS = '203.0.113.9'
const address = (index: number): string => `198.51.100.${1 + (index % 254)}`

function forwardedFor(usual: Outgoing, address: string): Outgoing {
  return { ...usual, headers: { ...usual.headers, 'x-forwarded-for': address } }
}

function respelled(usual: Outgoing, spell: (path: string) => string): Outgoing | undefined {
  const [, path = '', query = ''] = /^([^?]*)(.*)$/s.exec(usual.path)!
  const spelled = spell(path)
  return spelled === path ? undefined : { ...usual, path: spelled + query }
}

function slash(path: string): string {
  if (path === '/') return path
  return path.endsWith('/') ? path.slice(0, -1) : `${path}/`
}

/** Not what stands after a percent sign, which means the same in both cases. */
function swapCase(path: string): string {
  return path.replaceAll(/%[0-9a-f]{2}|[a-z]/gi, part => {
    if (part.startsWith('%')) return part
    return part === part.toLowerCase() ? part.toUpperCase() : part.toLowerCase()
  })
}

/** The last letter that is not part of an escape. */
function encode(path: string): string {
  const letter = [...path.matchAll(/%[0-9a-f]{2}|[a-z]/gi)].findLast(([part]) => part.length === 1)
  if (letter === undefined) return path
  const { 0: character, index } = letter
  return `${path.slice(0, index)}%${character.charCodeAt(0).toString(16)}${path.slice(index + 1)}`
}

/** From an address that the usual requests of {@link MAPPED} come from too. */
export const UNMAPPED: Way = {
  name: 'unmapped',
  about: 'X-Forwarded-For with an address',
  request: usual => forwardedFor(usual, ADDRESS)
}

export const MAPPED: Way = {
  name: 'mapped',
  about: 'X-Forwarded-For with the same address, IPv4-mapped',
  request: usual => forwardedFor(usual, `::ffff:${ADDRESS}`)
}

/** The ways that are tried once the usual one is spent. */
export const WAYS: readonly Way[] = [
  {
    name: 'head',
    about: 'HEAD for GET',
    request: usual => (usual.method === 'GET' ? { ...usual, method: 'HEAD' } : undefined)
  },
  {
    name: 'slash',
    about: 'a slash more or less at the end of the path',
    request: usual => respelled(usual, slash)
  },
  {
    name: 'case',
    about: 'letters of the other case in the path',
    request: usual => respelled(usual, swapCase)
  },
  {
    name: 'encoded',
    about: 'a letter of the path percent-encoded',
    request: usual => respelled(usual, encode)
  },
  {
    name: 'forwarded',
    about: 'X-Forwarded-For with another address each time',
    request: (usual, index) => forwardedFor(usual, address(index))
  }
]
