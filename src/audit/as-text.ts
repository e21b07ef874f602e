import type { AttackResult, AuditResult, FieldCheck, Limiter } from './result.js'
import { excessOf, promiseOf, proofOf, roughly, secondsOf, spreadOf, verdictOf, windowOf } from './words.js'

/** Gives text a style on a terminal, and leaves it as it is elsewhere. */
export type Paint = (style: Style, text: string) => string
export type Style = 'bold' | 'dim' | 'green' | 'red' | 'yellow'

const WIDTH = 80

/** A result for people, in 80 columns. */
export function asText(result: AuditResult, paint: Paint): string {
  const { target, promise, promiseKept, worst, limiter, fields, notes } = result
  const proof = proofOf(worst)
  return [
    paint('bold', target),
    ...wrapped(`${promiseOf(promise)}.`),
    '',
    ...table(result, paint),
    '',
    ...wrapped(verdictOf(result)).map(line => paint(promiseKept ? 'green' : 'red', line)),
    ...(proof === undefined ? [] : wrapped(proof)),
    ...(promiseKept ? [] : wrapped(`Admitted at ${timesOf(worst.evidence)}.`)),
    '',
    ...wrapped(limiterOf(limiter)),
    '',
    'What the fields say:',
    ...fields.checks.flatMap(check => checked(check, paint)),
    ...(notes.length === 0 ? [] : ['', ...notes.flatMap(note => wrapped(note))]),
    '',
    ...legend(result).map(line => paint('dim', line)),
    ''
  ].join('\n')
}

interface Column {
  readonly head: string
  readonly cell: (attack: AttackResult) => string
}

function table(result: AuditResult, paint: Paint): string[] {
  const columns = columnsOf(result)
  const widths = columns.map(({ head, cell }) =>
    Math.max(head.length, ...result.attacks.map(attack => cell(attack).length))
  )
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join('  ')
      .trimEnd()
  return [
    paint('bold', line(columns.map(({ head }) => head))),
    ...result.attacks.map(attack => {
      const text = line(columns.map(({ cell }) => cell(attack)))
      return attack.excess > 1 ? paint('red', text) : text
    })
  ]
}

function columnsOf({ promise }: AuditResult): Column[] {
  return [
    { head: 'attack', cell: ({ name }) => name },
    { head: 'sent', cell: ({ sent }) => String(sent) },
    { head: 'admitted', cell: ({ admitted }) => String(admitted) },
    { head: `any ${windowOf(promise)}`, cell: attack => spreadOf(attack, '-') },
    { head: 'excess', cell: ({ excess }) => excessOf(excess) },
    { head: '1st second', cell: ({ firstSecond }) => String(firstSecond) },
    {
      head: 'refused after',
      cell: ({ firstRefusalAfter }) => (firstRefusalAfter === null ? 'never' : roughly(firstRefusalAfter))
    }
  ]
}

function legend({ attacks, promise }: AuditResult): string[] {
  const uncertain = attacks.some(({ mostInAnyWindow, mostPossible }) => mostPossible > mostInAnyWindow)
  return [
    `any ${windowOf(promise)}: the most admitted in any interval of that length, wherever it starts${uncertain ? ';' : ''}`,
    ...(uncertain ? ['from what is sure, whenever the server counted, to what is possible'] : []),
    'excess: what is sure, divided by the quota'
  ]
}

const MOST_TIMES = 40

function timesOf(evidence: readonly { readonly sent: number }[]): string {
  const times = evidence.slice(0, MOST_TIMES).map(({ sent }) => secondsOf(sent))
  const more = evidence.length - times.length
  return `${times.join(' ')}${more > 0 ? ` and ${more} more` : ''}`
}

function limiterOf({ title, kind, capacity, refill, because }: Limiter): string {
  const unknown = kind === 'unknown' || kind === 'none'
  const numbers = [
    ...(capacity === null ? [] : [`${capacity} at once`]),
    ...(refill === null ? [] : [`${refill} a second in the long run`])
  ].join(', ')
  return `It resembles ${title}${numbers === '' ? '' : ` of ${numbers}`}${unknown ? ': ' : ', for '}${because}.`
}

const COLOURS = { true: 'green', false: 'red', careful: 'yellow', unseen: 'dim' } as const

/** The answer, the question, and what was seen; on a line of its own where it is more than a number. */
function checked({ question, answer, wrong, seen, detail }: FieldCheck, paint: Paint): string[] {
  const [first, ...rest] = [
    `${paint(COLOURS[answer], answer.padEnd(7))}  ${question}`,
    ...(answer === 'true' || answer === 'unseen'
      ? []
      : wrapped(`${answer === 'false' ? `${wrong} of ${seen}: ` : ''}${detail}`, '           '))
  ]
  const count = answer === 'true' ? ` ${detail}` : ''
  return [`  ${first}${paint('dim', count)}`, ...rest]
}

/** Lines of at most 80 columns. A word that is longer stays whole. */
export function wrapped(text: string, indent = ''): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && indent.length + line.length + 1 + word.length > WIDTH) {
      lines.push(indent + line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, indent + line]
}
