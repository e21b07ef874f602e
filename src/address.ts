import { isIPv4, isIPv6 } from 'node:net'
import ipaddr from 'ipaddr.js'
import { FifoMap } from 'toad-cache'

/**
 * Turns the client's address into the part of a partition that stands for it; `peer`, the address of the socket, takes
 * its place if it is not an address. Neither has to be one; it never throws.
 *
 * The result is `ip:203.0.113.9`, `ip:2001:db8:1:2::/64`, or `ip:none` if there is no address at all, as on a Unix
 * socket: all such requests share that one part.
 */
export type Addressing = (address: string | undefined, peer: string | undefined) => string

/** The part of requests without any address. */
export const NO_ADDRESS = 'ip:none'

/** How many addresses are remembered, and how long one may be written to be remembered. */
const REMEMBERED = 10_000
const LONGEST_REMEMBERED = 64

/** `address:port` of IPv4, or brackets with or without a port. A bare IPv6 address is neither, however it ends. */
const WITH_PORT = /^(?:([\d.]+):\d{1,5}|\[([\w.:%-]+)\](?::\d{1,5})?)$/
const WITH_ZONE = /^([\da-f:.]+)(?:%[\w.:-]+)?$/i
const DOTTED_TAIL = /(\d+)\.(\d+)\.(\d+)\.(\d+)$/

/**
 * The first four groups of most IPv6 addresses, as Node and this file write them: parsing an address takes twenty times as
 * long. The last of them is not 0, or the canonical form would leave it out.
 */
const PLAIN_NETWORK = /^(?:(?:0|[1-9a-f][\da-f]{0,3}):){3}[1-9a-f][\da-f]{0,3}(?=:)/

/** Prefixes of 96 bits before an IPv4 address. */
const MAPPED = new ipaddr.IPv6([0, 0, 0, 0, 0, 0xffff, 0, 0])
const NAT64 = new ipaddr.IPv6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0])

/**
 * Makes a function that counts IPv4 clients by address and IPv6 clients by network.
 *
 * Every spelling of an address has the same result: upper case, zeros, zones, `address:port` and `[address]:port`, and
 * an IPv4 address within `::ffff:0:0/96` or the NAT64 prefix `64:ff9b::/96`, which counts as that IPv4 address.
 *
 * @param ipv6Prefix bits of an IPv6 address that tell clients apart, an integer from 1 to 128
 */
export function addressing(ipv6Prefix: number): Addressing {
  const remembered = new FifoMap<string>(REMEMBERED)

  function part(text: string | undefined): string | undefined {
    if (!text) return undefined
    if (text.length > LONGEST_REMEMBERED) return read(text, ipv6Prefix)
    return remembered.get(text) ?? remember(text)
  }

  function remember(text: string): string | undefined {
    const result = read(text, ipv6Prefix)
    // What is no address is not remembered: it would only drive out those that are.
    if (result !== undefined) remembered.set(copy(text), result)
    return result
  }

  return (address, peer) => part(address) ?? part(peer) ?? NO_ADDRESS
}

function read(text: string, ipv6Prefix: number): string | undefined {
  const [, dotted, bracketed] = WITH_PORT.exec(text) ?? []
  const bare = dotted ?? bracketed ?? text
  // node:net decides what an address is, for ipaddr.js takes 010.0.0.1 for 8.0.0.1 and 1.2.3 for 1.2.0.3.
  if (isIPv4(bare)) return copy('ip:' + bare)
  if (ipv6Prefix === 64 && isIPv6(bare)) {
    const network = PLAIN_NETWORK.exec(bare)
    if (network !== null) return copy(`ip:${network[0]}::/64`)
  }
  const [, zoneless = ''] = WITH_ZONE.exec(bare) ?? []
  return isIPv6(zoneless) ? copy('ip:' + canonical(zoneless, ipv6Prefix)) : undefined
}

function canonical(text: string, ipv6Prefix: number): string {
  const address = ipaddr.IPv6.parse(text.replace(DOTTED_TAIL, hexadecimal))
  if (address.match(MAPPED, 96) || address.match(NAT64, 96)) return address.toByteArray().slice(12).join('.')
  const network = address.parts.map((part, index) => part & mask(ipv6Prefix - 16 * index))
  return `${new ipaddr.IPv6(network).toString()}/${ipv6Prefix}`
}

/** ipaddr.js takes `::1.2.3.4` for `::ffff:1.2.3.4`, but never `::102:304`. */
function hexadecimal(_dotted: string, ...octets: readonly string[]): string {
  const [a = 0, b = 0, c = 0, d = 0] = octets.map(Number)
  return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
}

/** The mask of 16 bits that keeps the first `bits`. */
function mask(bits: number): number {
  return bits <= 0 ? 0 : 0xffff << Math.max(0, 16 - bits)
}

/** A string in one piece of its own: a slice of a forwarding header would keep all of the header in memory. */
function copy(text: string): string {
  return Buffer.from(text).toString()
}
