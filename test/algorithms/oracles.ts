import type { Step, Terms } from '../../src/algorithm.js'

/** A limiter that keeps all it was ever asked, or computes with numbers as long as they get: slow, and hard to get wrong. */
export type Oracle = (now: number, units: number) => Partial<Step>

const HOUR = 3_600_000

/** Every unit counts for one window. */
export function naiveLog({ quota, window }: Terms): Oracle {
  const log: { readonly at: number; readonly units: number }[] = []
  const counted = (now: number): number =>
    log.reduce((sum, { at, units }) => (at > now - window ? sum + units : sum), 0)
  return (now, units) => {
    const allowed = counted(now) + units <= quota
    if (allowed && units > 0) log.push({ at: now, units })
    const remaining = quota - counted(now)
    if (allowed || units > quota) return { allowed, remaining }
    const ends = log.map(({ at }) => at + window).filter(end => counted(end) + units <= quota)
    return { allowed, remaining, retryAfter: Math.min(...ends) - now }
  }
}

/** The estimate as it is defined: the count of a sub-window, times what the window covers of it. */
export function naiveCounter({ quota, window, precision }: Terms): Oracle {
  const tick = window >= HOUR ? 1000 : 1
  const parts = BigInt(window / tick)
  const position = (time: number): bigint => BigInt(Math.floor(time / tick)) * BigInt(precision)
  const log: { readonly index: bigint; readonly units: bigint }[] = []
  return (now, units) => {
    const index = position(now) / parts
    const covered = (index + 1n) * parts - position(now)
    const estimate = log.reduce((sum, entry) => {
      const age = index - entry.index
      if (age > BigInt(precision)) return sum
      return sum + entry.units * (age === BigInt(precision) ? covered : parts)
    }, 0n)
    const used = Number(estimate / parts)
    const allowed = used + units <= quota
    if (allowed) log.push({ index, units: BigInt(units) })
    return { allowed, remaining: quota - used - (allowed ? units : 0) }
  }
}

/**
 * The generic cell rate algorithm in its form of virtual scheduling (ITU-T I.371), with times in parts of a tick so that
 * the emission interval, window / quota, is whole: `tat` is when the next unit is expected in theory, and units may come
 * early by what a full burst is worth.
 */
export function gcra({ quota, window, burst }: Terms): Oracle {
  const tick = window >= HOUR ? 1000 : 1
  const rate = BigInt(quota)
  const interval = BigInt(window / tick)
  const tolerance = BigInt(burst) * interval
  let tat = 0n
  return (now, units) => {
    const at = Math.floor(now / tick)
    const arrival = BigInt(at) * rate
    const next = (tat > arrival ? tat : arrival) + BigInt(units) * interval
    const allowed = next - arrival <= tolerance
    if (allowed) tat = next
    const ahead = tat > arrival ? tat - arrival : 0n
    const remaining = Number((tolerance - ahead) / interval)
    if (allowed || units > burst) return { allowed, remaining }
    return { allowed, remaining, retryAfter: (at + ceiling(next - tolerance - arrival, rate)) * tick - now }
  }
}

/** One after the other: each starts when all before it have had their time, and at the pace of its own units. */
export function naiveQueue({ quota, window, maxDelay }: Terms): Oracle {
  const rate = BigInt(quota)
  const pace = BigInt(window)
  let free = 0n
  return (now, units) => {
    if (units === 0) return { allowed: true, delay: 0 }
    const arrival = BigInt(now) * rate
    const turn = free > arrival ? free : arrival
    const wait = turn - arrival + BigInt(units - 1) * pace
    const allowed = wait <= BigInt(maxDelay) * rate
    if (allowed) free = turn + BigInt(units) * pace
    return { allowed, delay: allowed ? ceiling(wait, rate) : 0 }
  }
}

const ceiling = (dividend: bigint, divisor: bigint): number => Number((dividend + divisor - 1n) / divisor)
