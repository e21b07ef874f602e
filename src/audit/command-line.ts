import { show } from '../options.js'
import { refuse, readSettings } from './options.js'
import type { Settings } from './options.js'

/** What stood on the command line, as text. */
export interface Given {
  readonly quota?: string
  readonly window?: string
  readonly policy?: string
  readonly cost?: string
  readonly attacks?: readonly string[]
  readonly bypass?: true
  readonly method?: string
  readonly header?: readonly string[]
  readonly body?: string
  readonly connections?: string
  readonly maxRequests?: string
  readonly maxTime?: string
  readonly iOwnThisHost?: string
}

/**
 * Options as they stood on the command line.
 *
 * @param readText gives the text of a file.
 * @throws {QuotaOptionError} with a sentence that names the option, its value and what was expected.
 */
export function readCommandLine(given: Given, readText: (path: string) => string): Settings {
  const { quota, window, policy, cost, attacks, bypass, method, header, body } = given
  const options = {
    quota: number(quota),
    window: number(window),
    policy,
    cost: number(cost),
    attacks,
    bypass,
    method,
    headers: header && readHeaders(header),
    body: body && readBody(body, readText),
    connections: number(given.connections),
    maxRequests: number(given.maxRequests),
    maxTime: number(given.maxTime),
    ownHost: given.iOwnThisHost
  }
  const present = Object.entries(options).filter(([, value]) => value !== undefined)
  return readSettings(refuse, Object.fromEntries(present), spell)
}

/** As text if it is none, so that the message shows what was written. */
function number<T extends string | undefined>(text: T): T | number {
  return text !== undefined && /^-?\d{1,16}$/.test(text) ? Number(text) : text
}

function spell(option: string): string {
  if (option === 'headers') return '--header'
  return `--${option.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`
}

function readHeaders(lines: readonly string[]): Record<string, string> {
  const fields = lines.map(line => {
    const [, name, value] = /^([^:\s]+):\s*(.*?)\s*$/.exec(line) ?? []
    // It may hold a secret, so the message shows no more than its beginning.
    if (name === undefined)
      return refuse(`--header must be like "name: value", got ${show(line.slice(0, 8))}…`)
    return [name, value] as const
  })
  return Object.fromEntries(fields) as Record<string, string>
}

/** Text, or with an `@` before it, the name of a file. */
function readBody(text: string, readText: (path: string) => string): string {
  if (!text.startsWith('@')) return text
  try {
    return readText(text.slice(1))
  } catch (error) {
    return refuse(`--body must be a file that can be read, got ${show(text)}: ${(error as Error).message}`)
  }
}
