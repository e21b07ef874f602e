import { alternatives, asInteger, asOneOf, show, suggestion } from '../../src/options.js'
import type { Refuse } from '../../src/options.js'
import type { Row } from './row.js'

/** What a run of the bench is to do. */
export interface Wish {
  readonly json: boolean
  readonly rows: readonly Row[]
  readonly rounds: number
  /** A revision of this repository to compare this tree with, instead of with rivals. */
  readonly compare: string | undefined
  /** Whether to tell where the time of requests goes, and to compare nothing. */
  readonly profile: boolean
}

/** A command line that nobody can follow; the message says why. */
export class UsageError extends Error {}

/** As many as fit in a few minutes. */
const ROUNDS = 60
const MOST_ROUNDS = 100_000

/** Each option, and whether it has a value. */
const OPTIONS: Readonly<Record<string, boolean>> = {
  '--json': false,
  '--only': true,
  '--rounds': true,
  '--compare': true,
  '--profile': false
}

export const USAGE: string = `npm run bench -- [options]

  --only <names>    measures or groups, with commas between, such as P1,P3 or http
  --rounds <count>  how often each subject has its turn; default ${ROUNDS}
  --compare <rev>   build another revision, and compare this tree with it instead of with rivals
  --profile         tell where the time of requests goes, and compare nothing
  --json            print JSON instead of a table
`

/**
 * Reads a command line.
 * @param all The rows there are.
 * @throws UsageError that names the option, its value and what was expected.
 */
export function readCommandLine(args: readonly string[], all: readonly Row[]): Wish {
  const given = split(args)
  const other = ['--only', '--compare'].find(name => given.has(name))
  if (given.has('--profile') && other !== undefined)
    refuse(`--profile and ${other} exclude each other, got ${other} ${show(given.get(other))}`)
  return {
    json: given.has('--json'),
    rows: chosen(given.get('--only'), all),
    rounds: readRounds(given.get('--rounds')),
    compare: given.get('--compare'),
    profile: given.has('--profile')
  }
}

const refuse: Refuse = message => {
  throw new UsageError(message)
}

/** Options with their values; the one that has none has an empty one. */
function split(args: readonly string[]): ReadonlyMap<string, string> {
  const given = new Map<string, string>()
  for (let i = 0; i < args.length; i++) {
    const [name, ...rest] = args[i]!.split('=') as [string, ...string[]]
    const follows = args[i + 1]?.startsWith('--') === false
    const value = rest.length > 0 ? rest.join('=') : follows ? args[i + 1] : undefined
    const takesValue = OPTIONS[name] ?? refuseUnknown(name, value)
    if (given.has(name))
      refuse(`${name} is given twice, the second time with ${show(value ?? '')}; expected it once`)
    if (takesValue && value === undefined) refuse(`${name} needs a value, got nothing`)
    if (!takesValue && rest.length > 0) refuse(`${name} takes no value, got ${show(value)}`)
    if (takesValue && rest.length === 0) i++
    given.set(name, takesValue ? value! : '')
  }
  return given
}

function refuseUnknown(name: string, value: string | undefined): never {
  const names = Object.keys(OPTIONS)
  if (!name.startsWith('--'))
    return refuse(`expected options, which are ${alternatives(names)}, got ${show(name)}`)
  const what = value === undefined ? 'without a value' : `with the value ${show(value)}`
  return refuse(
    `unknown option ${show(name)} ${what}${suggestion(name, names) || `; expected ${alternatives(names)}`}`
  )
}

function chosen(only: string | undefined, all: readonly Row[]): readonly Row[] {
  if (only === undefined) return all
  const names = [...new Set([...all.map(({ name }) => name), ...all.map(({ stage }) => stage)])]
  const wanted = only.split(',').map(name => asOneOf(refuse, '--only', name, names))
  return all.filter(({ name, stage }) => wanted.includes(name) || wanted.includes(stage))
}

function readRounds(text: string | undefined): number {
  if (text === undefined) return ROUNDS
  return asInteger(refuse, '--rounds', /^\d+$/.test(text) ? Number(text) : text, 1, MOST_ROUNDS)
}
