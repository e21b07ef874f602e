import { TermsError } from '../algorithm.js'
import { LARGEST_INTEGER, asOneOf, show } from '../options.js'
import type { Refuse } from '../options.js'
import { NAMES, contenders, knows } from './contenders.js'
import type { Contender, Name, Settings } from './contenders.js'
import { hasRequests, readOwn } from './own.js'
import type { Study } from './report.js'
import { SCENARIOS } from './scenarios.js'
import type { Scenario } from './scenarios.js'
import { absent, readDuration, readInteger } from './values.js'
import type { Given } from './values.js'

/** Entries of the log times requests that look at them all; more than this takes minutes. */
const LONGEST_LOG_RUN = 100_000_000
const LOG_LEFT_OUT =
  'sliding-window-log keeps every unit: with so many requests it takes minutes, so it runs only if --algorithm names it.'

/**
 * The studies a command line asks for: requests of its own, or scenarios.
 * @param readText Gives the text of a file.
 * @throws by `refuse`, with a sentence that names the option, its value and what was expected.
 */
export function readStudies(refuse: Refuse, given: Given, readText: (path: string) => string): Study[] {
  const names = given.algorithm?.map(name => readName(refuse, name))
  const scenarios = hasRequests(given) ? [readOwn(refuse, given, readText)] : readScenarios(refuse, given)
  return scenarios.map(scenario => study(refuse, scenario, names, given))
}

function readScenarios(refuse: Refuse, given: Given): Scenario[] {
  absent(refuse, given, ['quota', 'window', 'phase'], REQUESTS_ARE_GIVEN)
  absent(refuse, given, ['for'], '--rate, the rate of the requests in that time')
  absent(refuse, given, ['at'], '--burst-of, the number of requests at that time')
  const names = SCENARIOS.map(({ name }) => name)
  const chosen = (given.scenario ?? ['all']).map(name =>
    asOneOf(refuse, '--scenario', name, [...names, 'all'])
  )
  return SCENARIOS.filter(({ name }) => chosen.includes('all') || chosen.includes(name))
}

const REQUESTS_ARE_GIVEN = 'requests of your own: --rate and --for, --burst-of and --at, or --file'

function study(refuse: Refuse, scenario: Scenario, names: readonly Name[] | undefined, given: Given): Study {
  const { quota, arrivals } = scenario
  const large = names === undefined && Math.min(quota, arrivals.length) * arrivals.length > LONGEST_LOG_RUN
  const chosen = NAMES.filter(name => names?.includes(name) ?? !(large && name === 'sliding-window-log'))
  return {
    ...scenario,
    contenders: chosen.flatMap(name => rows(refuse, name, scenario, names ?? NAMES, given)),
    notes: large ? [LOG_LEFT_OUT] : []
  }
}

function rows(
  refuse: Refuse,
  name: Name,
  scenario: Scenario,
  names: readonly Name[],
  given: Given
): Contender[] {
  try {
    const settings = readSettings(refuse, scenario, names, given)
    const drained = { ...settings, drained: true }
    if (settings.drained) return contenders(name, drained)
    return [
      ...contenders(name, settings),
      ...(scenario.alsoDrained.includes(name) ? contenders(name, drained) : [])
    ]
  } catch (error) {
    if (error instanceof TermsError) return refuse(`${name} cannot count this exactly: ${error.message}`)
    throw error
  }
}

const WRITTEN = { precisions: '--precision', burst: '--burst', maxDelay: '--max-delay' } as const

function readSettings(
  refuse: Refuse,
  { quota, window, precisions }: Scenario,
  names: readonly Name[],
  given: Given
): Settings {
  const settings: Settings = {
    quota,
    window,
    precisions: given.precision?.map(text => readInteger(refuse, '--precision', text, 1, 1000)) ?? precisions,
    burst:
      given.burst === undefined ? undefined : readInteger(refuse, '--burst', given.burst, 1, LARGEST_INTEGER),
    maxDelay: given.maxDelay === undefined ? undefined : readDuration(refuse, '--max-delay', given.maxDelay),
    drained: given.drained ?? false
  }
  const known = names.flatMap(name => knows(name, settings))
  const written = { precisions: given.precision?.join(), burst: given.burst, maxDelay: given.maxDelay }
  for (const option of ['precisions', 'burst', 'maxDelay'] as const) {
    const value = written[option]
    if (value === undefined || known.includes(option)) continue
    refuse(`${WRITTEN[option]} means nothing to ${names.join(' and ')}${owners(option)}, got ${show(value)}`)
  }
  return settings
}

/** Who else would have understood an option. */
function owners(option: keyof typeof WRITTEN): string {
  const owners = NAMES.filter(name => knows(name, {}).includes(option))
  const without = option === 'burst' ? ' without --max-delay' : ''
  return `; it belongs to ${owners.join(' and ')}${without}`
}

function readName(refuse: Refuse, text: string): Name {
  if (text === 'concurrency') {
    refuse(
      '--algorithm "concurrency" counts requests in progress, and times of arrival do not tell how long they last; ' +
        `expected ${NAMES.join(', ')}`
    )
  }
  return asOneOf(refuse, '--algorithm', text, NAMES)
}
