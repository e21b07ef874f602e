#!/usr/bin/env node
import { readFileSync, writeFileSync } from 'node:fs'
import { styleText } from 'node:util'
import { Command } from 'commander'
import type { Style } from './audit/as-text.js'
import type { CommandOptions } from './audit/command.js'
import { readStudies } from './simulate/options.js'
import { report } from './simulate/report.js'
import { asJson, asText } from './simulate/table.js'
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

program
  .command('audit')
  .description('Attacks an API as real traffic does, and measures the most it admits in any window.')
  .argument('<url>', 'what to ask for, on this machine unless --i-own-this-host says otherwise')
  .option('--quota <units>', 'what is promised per window; default what the fields say')
  .option(
    '--window <duration>',
    "the window of the promise, seconds or like '500ms'; default what the fields say"
  )
  .option('--policy <name>', 'the announced policy to attack; default that of the shortest window')
  .option('--cost <units>', 'units that a request costs; default 1')
  .option(
    '--attacks <names>',
    "attacks to run, by name, or 'shifted' or 'bypass'; default all but bypass",
    list
  )
  .option('--bypass', 'try ways around too: HEAD, other spellings of the path, X-Forwarded-For')
  .option('--i-own-this-host <name>', 'the host, if it is not this machine: attack nothing that is not yours')
  .optionsGroup('Requests:')
  .option('--method <method>', 'default GET')
  .option('--header <field>', "a header field like 'authorization: Bearer …'; repeatable", each)
  .option('--body <text>', 'a body, or @ and the name of a file')
  .option('--connections <count>', 'connections at the same time, at most; default 256')
  .option('--max-requests <count>', 'requests, at most; attacks that need more are left out; default 50000')
  .option('--max-time <duration>', 'the longest it may take; attacks that need more are left out; default 1h')
  .optionsGroup('Results:')
  .option('--dry-run', 'print what would be sent and how long it would take, and attack nothing')
  .option('--json', 'print JSON instead of a table')
  .option('--html <path>', 'also write a report with charts, a page that needs no other file')
  .option('--junit <path>', 'also write a JUnit file')
  .option('--strict', 'fields that are false break the promise too')
  .addHelpText(
    'after',
    '\nIt ends with 0 if the promise is kept, 1 if it is broken, and 2 if it could not measure.'
  )
  .action(audit)

await program.parseAsync()

/** Loaded when it is used: what sends requests takes its time to load. */
async function audit(url: string, options: CommandOptions): Promise<void> {
  const { auditCommand } = await import('./audit/command.js')
  const { stdout, stderr } = process
  process.exitCode = await auditCommand(url, options, {
    print: text => stdout.write(text),
    complain: text => stderr.write(text),
    paint,
    /* c8 ignore next: tests have no terminal */
    terminal: stderr.isTTY ? stderr : undefined,
    readText: path => readFileSync(path, 'utf8'),
    writeText: (path, text) => writeFileSync(path, text)
  })
}

function simulate({ json, ...given }: Given & { readonly json?: true }): void {
  const refuse = (message: string): never => program.error(`simulate: ${message}`)
  const reports = readStudies(refuse, given, path => readFileSync(path, 'utf8')).map(report)
  process.stdout.write(json ? asJson(reports) : asText(reports, paint))
}

function list(text: string, before: readonly string[] = []): string[] {
  return [...before, ...text.split(',')]
}

function each(text: string, before: readonly string[] = []): string[] {
  return [...before, text]
}

function paint(style: Style, text: string): string {
  return styleText(style, text, { stream: process.stdout })
}
