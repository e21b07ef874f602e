#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { styleText } from 'node:util'
import { Command } from 'commander'
import { readStudies } from './simulate/options.js'
import { report } from './simulate/report.js'
import { asJson, asText } from './simulate/table.js'
import type { Style } from './simulate/table.js'
import type { Given } from './simulate/values.js'

const WRONG_USAGE = 2

const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  readonly version: string
}

const program = new Command('fastify-quota')
  .description('Shows what rate limits really admit.')
  .version(manifest.version)
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : WRONG_USAGE))

program
  .command('simulate')
  .description('Runs requests through every algorithm on a virtual clock and prints what each one admits.')
  .option(
    '--scenario <names>',
    'A (phase), B (window edge), C (even traffic), D (attack) or all; default all',
    list
  )
  .option('--algorithm <names>', 'algorithms to run; default all that count over time', list)
  .option(
    '--precision <counts>',
    'sub-windows of sliding-window and sliding-window-counter; default 10, or as the scenario has it',
    list
  )
  .option('--burst <units>', 'capacity of the buckets; default the quota')
  .option('--max-delay <duration>', 'let leaky-bucket queue for so long instead of refusing')
  .option('--drained', 'start with everything spent, instead of nothing')
  .option('--json', 'print JSON instead of tables')
  .optionsGroup('Requests of your own, instead of scenarios:')
  .option('--quota <units>', 'units per window')
  .option('--window <duration>', "seconds, or a duration like '500ms', '10s', '1m'")
  .option('--rate <rate>', "requests at an even rate like '5/s' or '100/1m', from 0s on")
  .option('--for <duration>', 'how long --rate lasts')
  .option('--burst-of <requests>', 'so many requests at once; repeatable', list)
  .option('--at <time>', 'when the --burst-of of the same place comes; repeatable', list)
  .option(
    '--file <path>',
    'requests from a file: a line each with the time (ms or ISO 8601) and, if not 1, the cost'
  )
  .option('--phase <durations>', 'move all requests by so much on the clock; several are compared', list)
  .addHelpText(
    'after',
    '\nOptions with a plural can be repeated, or hold several values with commas between.'
  )
  .action(simulate)

program.parse()

function simulate({ json, ...given }: Given & { readonly json?: true }): void {
  const refuse = (message: string): never => program.error(`simulate: ${message}`)
  const reports = readStudies(refuse, given, path => readFileSync(path, 'utf8')).map(report)
  process.stdout.write(json ? asJson(reports) : asText(reports, paint))
}

function list(text: string, before: readonly string[] = []): string[] {
  return [...before, ...text.split(',')]
}

function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout })
}
