import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

/** The acceptance figures: exact, and computed without this code. */
interface Figures {
  readonly scenario: string
  readonly label: string
  readonly phase?: number
  readonly admitted?: number
  readonly mostInAnyWindow: number
  readonly excess?: string
  readonly firstSecond?: number
  readonly perTenth?: readonly number[]
}

const figures: readonly Figures[] = [
  ...phase('fixed-window, aligned to the clock', [20, 10, '1.00x', 5], [30, 20, '2.00x', 5]),
  ...phase('sliding-window-log', [20, 10, '1.00x', 5], [20, 10, '1.00x', 5]),
  ...phase('token-bucket, burst 10', [29, 19, '1.90x', 5], [29, 19, '1.90x', 5]),
  ...phase('sliding-window, precision 10', [20, 10, '1.00x', 5], [20, 10, '1.00x', 5]),

  { scenario: 'B', label: 'fixed-window, aligned to the clock', mostInAnyWindow: 20, admitted: 20 },
  { scenario: 'B', label: 'sliding-window-log', mostInAnyWindow: 10, admitted: 10 },
  { scenario: 'B', label: 'sliding-window, precision 10', mostInAnyWindow: 10, admitted: 10 },

  { scenario: 'C', label: 'sliding-window-counter, precision 6', mostInAnyWindow: 100, admitted: 100 },
  {
    scenario: 'C',
    label: 'leaky-bucket, burst 100',
    mostInAnyWindow: 199,
    admitted: 199,
    perTenth: [100, 19, 10, 10, 10, 10, 10, 10, 10, 10]
  },
  { scenario: 'C', label: 'token-bucket, burst 100', mostInAnyWindow: 199, admitted: 199 },
  { scenario: 'C', label: 'token-bucket, burst 100, drained', mostInAnyWindow: 99, admitted: 99 },

  ...[1, 6, 10, 60].flatMap(precision => [
    {
      scenario: 'D',
      label: `sliding-window-counter, precision ${precision}`,
      mostInAnyWindow: 200,
      excess: '2.00x'
    },
    { scenario: 'D', label: `sliding-window, precision ${precision}`, mostInAnyWindow: 100, excess: '1.00x' }
  ])
]

interface Output {
  readonly scenarios: readonly {
    readonly scenario: string
    readonly algorithms: readonly {
      readonly label: string
      readonly phases: readonly {
        readonly mostInAnyWindow: number
        readonly excess: number
        readonly waits: { readonly given: number; readonly true: number }
      }[]
    }[]
  }[]
}

t.test('the JSON of the command has the acceptance figures to the digit', async t => {
  const { scenarios } = JSON.parse(await simulate('--json')) as Output
  for (const { scenario, label, phase = 0, excess, ...expected } of figures) {
    const { algorithms } = scenarios.find(found => found.scenario === scenario)!
    const outcome = algorithms.find(found => found.label === label)!.phases[phase]!
    t.match(outcome, expected, `${scenario} ${label} ${phase}`)
    if (excess !== undefined) t.equal(`${outcome.excess.toFixed(2)}x`, excess)
  }
})

t.test('every wait that any algorithm names in any scenario is exact', async t => {
  const { scenarios } = JSON.parse(await simulate('--json')) as Output
  const waits = scenarios
    .flatMap(({ algorithms }) => algorithms)
    .flatMap(({ phases }) => phases)
    .map(({ waits }) => waits)
  t.equal(waits.length, 42)
  t.strictSame(
    waits.filter(({ given, true: kept }) => given !== kept),
    []
  )
})

t.test('the tables of the command have the acceptance figures to the digit', async t => {
  const text = await simulate('--scenario', 'all')
  for (const { scenario, label, phase = 0, perTenth, ...expected } of figures) {
    const cells = row(text, scenario, label)
    const [admitted, mostInAnyWindow, excess, firstSecond] = cells.slice(4 * phase)
    const found = {
      admitted: Number(admitted),
      mostInAnyWindow: Number(mostInAnyWindow),
      excess,
      firstSecond: Number(firstSecond)
    }
    t.match(found, expected, `${scenario} ${label} ${phase}`)
    if (perTenth !== undefined) t.equal(cells.at(-1), perTenth.join(' '))
  }
})

/** Scenario A: in all, in any window, excess, first second; aligned, then shifted. */
function phase(label: string, ...phases: (readonly [number, number, string, number])[]): Figures[] {
  return phases.map(([admitted, mostInAnyWindow, excess, firstSecond], phase) => ({
    scenario: 'A',
    label,
    phase,
    admitted,
    mostInAnyWindow,
    excess,
    firstSecond
  }))
}

/** The cells after the label in the row of a scenario's table. */
function row(text: string, scenario: string, label: string): string[] {
  const lines = text.split('\n')
  const start = lines.findIndex(line => line.startsWith(`${scenario}. `))
  const rows = lines.slice(start).map(line => line.split(/ {2,}/))
  const [, ...cells] = rows.find(([first]) => first === label)!
  return cells
}

function simulate(...options: string[]): Promise<string> {
  const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [cli, 'simulate', ...options], (error, stdout) => {
      if (error === null) resolve(stdout)
      else reject(new Error('the command failed', { cause: error }))
    })
  })
}
