import { LARGEST_INTEGER, show } from '../options.js'
import type { Refuse } from '../options.js'
import { LATEST, burst, evenly, inOrder, parseArrivals } from './arrivals.js'
import type { Arrival, Rate } from './arrivals.js'
import { duration } from './duration.js'
import { total } from './measure.js'
import { PRECISION, UNSHIFTED } from './scenarios.js'
import type { Phase, Scenario } from './scenarios.js'
import { absent, readDuration, readInteger, readTime, required } from './values.js'
import type { Given } from './values.js'

const MOST_REQUESTS = 1_000_000

/** Whether a command line has requests of its own. */
export function hasRequests({ rate, burstOf, file }: Given): boolean {
  return rate !== undefined || burstOf !== undefined || file !== undefined
}

/**
 * The scenario that a command line makes of a rate, bursts and a file.
 * @param readText Gives the text of a file.
 */
export function readOwn(refuse: Refuse, given: Given, readText: (path: string) => string): Scenario {
  if (given.scenario !== undefined) {
    refuse(`--scenario has its own requests and goes without others, got ${show(given.scenario.join())}`)
  }
  const parts = [
    ...readRate(refuse, given),
    ...readBursts(refuse, given),
    ...readFile(refuse, given, readText)
  ]
  const arrivals = inOrder(parts.flatMap(({ arrivals }) => arrivals))
  const phases = given.phase?.map(phase => readPhase(refuse, phase)) ?? [UNSHIFTED]
  bounded(refuse, arrivals.length)
  notTooLate(refuse, arrivals, phases)
  return {
    name: 'own',
    title: 'Your requests',
    about: `${requests(arrivals)}: ${parts.map(({ about }) => about).join('; ')}`,
    quota: readInteger(
      refuse,
      '--quota',
      required(refuse, given.quota, '--quota', 'an integer from 1'),
      1,
      LARGEST_INTEGER
    ),
    window: readDuration(
      refuse,
      '--window',
      required(refuse, given.window, '--window', "a duration like '10s'")
    ),
    precisions: [PRECISION],
    alsoDrained: [],
    arrivals,
    phases,
    tenths: false
  }
}

/** Requests, and what they are in words. */
interface Part {
  readonly about: string
  readonly arrivals: readonly Arrival[]
}

function requests(arrivals: readonly Arrival[]): string {
  const units = total(arrivals)
  const count = `${arrivals.length} request${arrivals.length === 1 ? '' : 's'}`
  return units === arrivals.length ? count : `${count} of ${units} units`
}

function readRate(refuse: Refuse, given: Given): Part[] {
  if (given.rate === undefined) {
    absent(refuse, given, ['for'], '--rate, the rate of the requests in that time')
    return []
  }
  const rate = parseRate(refuse, given.rate)
  const length = readDuration(
    refuse,
    '--for',
    required(refuse, given.for, '--for', "a duration like '120s', with --rate")
  )
  const count = Math.ceil((length * rate.requests) / rate.per)
  if (count > MOST_REQUESTS) {
    refuse(`--rate and --for must make at most ${MOST_REQUESTS} requests, got ${count}`)
  }
  return [{ about: `${given.rate} for ${duration(length)}`, arrivals: evenly(0, count, rate) }]
}

const RATE = /^(?<requests>[1-9]\d{0,8})\/(?<count>\d{0,9})(?<unit>ms|s|m|h|d)$/

function parseRate(refuse: Refuse, text: string): Rate {
  const groups = RATE.exec(text)?.groups
  if (groups === undefined) {
    return refuse(`--rate must be requests per time like '5/s' or '100/1m', got ${show(text)}`)
  }
  const { requests, count, unit } = groups
  return { requests: Number(requests), per: readDuration(refuse, '--rate', `${count || 1}${unit}`) }
}

function readBursts(refuse: Refuse, given: Given): Part[] {
  const { burstOf = [], at = [] } = given
  if (burstOf.length !== at.length) {
    refuse(
      `--burst-of and --at go in pairs, so many requests at such a time, got ${burstOf.length} of the one and ${at.length} of the other`
    )
  }
  const counts = burstOf.map(text => readInteger(refuse, '--burst-of', text, 1, MOST_REQUESTS))
  bounded(
    refuse,
    counts.reduce((sum, count) => sum + count, 0)
  )
  return counts.map((count, i) => {
    const time = readTime(refuse, '--at', at[i]!)
    return { about: `${count} at ${duration(time)}`, arrivals: burst(time, count) }
  })
}

function readFile(refuse: Refuse, { file }: Given, readText: (path: string) => string): Part[] {
  if (file === undefined) return []
  const arrivals = parseArrivals(refuse, textOf(refuse, file, readText))
  if (arrivals.length === 0) refuse(`--file must have a time on at least one line, got none in ${show(file)}`)
  return [{ about: `${arrivals.length} of ${file}`, arrivals }]
}

function textOf(refuse: Refuse, file: string, readText: (path: string) => string): string {
  try {
    return readText(file)
  } catch (error) {
    return refuse(`--file must be a file that can be read, got ${show(file)}: ${(error as Error).message}`)
  }
}

function readPhase(refuse: Refuse, text: string): Phase {
  const shift = readTime(refuse, '--phase', text)
  return { name: `phase ${duration(shift)}`, shift }
}

function bounded(refuse: Refuse, count: number): void {
  if (count > MOST_REQUESTS) refuse(`there must be at most ${MOST_REQUESTS} requests in all, got ${count}`)
}

function notTooLate(refuse: Refuse, arrivals: readonly Arrival[], phases: readonly Phase[]): void {
  const latest = arrivals.at(-1)!.at + Math.max(...phases.map(({ shift }) => shift))
  if (latest > LATEST) refuse(`the last request must come at ${LATEST} ms or before, got ${latest} ms`)
}
