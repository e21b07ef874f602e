import { QuotaOptionError } from '../client/errors.js'
import { asHtml } from './as-html.js'
import { asJson } from './as-json.js'
import { asJUnit } from './as-junit.js'
import { asText } from './as-text.js'
import type { Paint } from './as-text.js'
import { auditWith, planWith } from './audit.js'
import { readCommandLine } from './command-line.js'
import type { Given } from './command-line.js'
import { CannotMeasureError } from './errors.js'
import type { Settings } from './options.js'
import { planAsJson, planAsText } from './plan-text.js'
import { ProgressLine } from './progress-line.js'
import type { Terminal } from './progress-line.js'
import type { AuditResult } from './result.js'

/** The options of the command, as text. */
export interface CommandOptions extends Given {
  readonly dryRun?: true
  readonly json?: true
  readonly html?: string
  readonly junit?: string
  readonly strict?: true
}

/** What the command needs of the machine. */
export interface Surroundings {
  readonly print: (text: string) => void
  readonly complain: (text: string) => void
  readonly paint: Paint
  /** Where to show progress; `undefined`: nobody is watching. */
  readonly terminal: Terminal | undefined
  readonly readText: (path: string) => string
  readonly writeText: (path: string, text: string) => void
}

const KEPT = 0
const BROKEN = 1
const NOT_MEASURED = 2

/** `fastify-quota audit`: gives the exit code, 0 if the promise is kept, 1 if it is broken, 2 if nobody knows. */
export async function auditCommand(
  url: string,
  options: CommandOptions,
  surroundings: Surroundings
): Promise<number> {
  try {
    const { dryRun, json, html, junit, strict, ...given } = options
    const settings = readCommandLine(given, surroundings.readText)
    if (dryRun === true) return await showPlan(url, settings, options, surroundings)
    const result = await watched(url, settings, surroundings.terminal)
    if (junit !== undefined) {
      surroundings.writeText(junit, asJUnit(result, strict === true ? 'fields' : 'promise'))
    }
    if (html !== undefined) surroundings.writeText(html, asHtml(result))
    surroundings.print(json === true ? asJson(result) : asText(result, surroundings.paint))
    return exitCode(result, options)
  } catch (error) {
    surroundings.complain(complaint(error))
    return NOT_MEASURED
  }
}

async function showPlan(
  url: string,
  settings: Settings,
  { json }: CommandOptions,
  { print, paint }: Surroundings
): Promise<number> {
  const plan = await planWith({ url }, settings)
  print(json === true ? planAsJson(plan) : planAsText(plan, paint))
  return KEPT
}

async function watched(
  url: string,
  settings: Settings,
  terminal: Terminal | undefined
): Promise<AuditResult> {
  if (terminal === undefined) return auditWith({ url }, settings)
  const line = new ProgressLine(terminal)
  try {
    return await auditWith({ url }, { ...settings, onProgress: line.show })
  } finally {
    line.end()
  }
}

function exitCode({ promiseKept, fields }: AuditResult, { strict }: CommandOptions): number {
  const lies = strict === true && fields.checks.some(({ answer }) => answer === 'false')
  return promiseKept && !lies ? KEPT : BROKEN
}

function complaint(error: unknown): string {
  if (error instanceof QuotaOptionError) return `${error.message}\n`
  if (error instanceof CannotMeasureError) return `audit: could not measure: ${error.message}\n`
  return `audit: ${(error as Error).stack}\n`
}
