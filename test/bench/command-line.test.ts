import t from 'tap'
import { UsageError, readCommandLine } from './command-line.js'
import { rows } from './rows/index.js'

const read = (...args: readonly string[]): ReturnType<typeof readCommandLine> => readCommandLine(args, rows)

t.test('without options, all rows are measured beside rivals and printed as a table', async t => {
  t.strictSame(read(), { json: false, rows, rounds: 60, compare: undefined, profile: false })
})

t.test('values follow their option or an equals sign', async t => {
  const { json, rounds, compare } = read('--rounds', '7', '--json', '--compare=HEAD~1')
  t.strictSame({ json, rounds, compare }, { json: true, rounds: 7, compare: 'HEAD~1' })
  t.equal(read('--compare=a=b').compare, 'a=b')
})

t.test('--only chooses measures by name and by group, in the order of the table', async t => {
  const names = (only: string): readonly string[] => [
    ...new Set(read('--only', only).rows.map(({ name }) => name))
  ]
  t.strictSame(names('P3,P1'), ['P1', 'P3'])
  t.strictSame(names('memory'), ['P6'])
  t.strictSame(names('P1,loops'), ['P1', 'P3', 'P4', 'P5'])
  t.ok(read('--only', 'loops').rows.every(({ stage }) => stage === 'loops'))
})

t.test('--profile takes rounds, and may be told as JSON', async t => {
  const { json, rounds, profile } = read('--profile', '--rounds=9', '--json')
  t.strictSame({ json, rounds, profile }, { json: true, rounds: 9, profile: true })
})

const REFUSED: Readonly<Record<string, string>> = {
  '--ony P1': 'unknown option "--ony" with the value "P1"; did you mean "--only"?',
  '--fast':
    'unknown option "--fast" without a value; expected "--json", "--only", "--rounds", "--compare" or "--profile"',
  '-x=1': 'expected options, which are "--json", "--only", "--rounds", "--compare" or "--profile", got "-x"',
  P1: 'expected options, which are "--json", "--only", "--rounds", "--compare" or "--profile", got "P1"',
  '--rounds': '--rounds needs a value, got nothing',
  '--rounds --json': '--rounds needs a value, got nothing',
  '--rounds many': '--rounds must be an integer from 1 to 100000, got "many"',
  '--rounds 0': '--rounds must be an integer from 1 to 100000, got 0',
  '--rounds 1.5': '--rounds must be an integer from 1 to 100000, got "1.5"',
  '--rounds 100001': '--rounds must be an integer from 1 to 100000, got 100001',
  '--rounds 1 --rounds 2': '--rounds is given twice, the second time with "2"; expected it once',
  '--json=yes': '--json takes no value, got "yes"',
  '--json yes':
    'expected options, which are "--json", "--only", "--rounds", "--compare" or "--profile", got "yes"',
  '--profile --only P1': '--profile and --only exclude each other, got --only "P1"',
  '--compare main --profile': '--profile and --compare exclude each other, got --compare "main"',
  '--only p1':
    '--only must be "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "http", "loops", ' +
    '"memory", "redis", "batches" or "pauses", got "p1"',
  '--only htp':
    '--only must be "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "http", "loops", ' +
    '"memory", "redis", "batches" or "pauses", got "htp"; did you mean "http"?'
}

for (const [line, message] of Object.entries(REFUSED)) {
  t.test(`${line} is refused`, async t => {
    t.throws(() => read(...line.split(' ')), new UsageError(message))
  })
}
