import { Server, SERVER } from './http/subject.js'
import { OURS } from './places.js'
import { number, table } from './report.js'
import type { Effort, Subject } from './stage.js'
import { withWorkers } from './worker.js'
import type { Hire, Numbers } from './worker.js'

/** Those that are looked into side by side: without a limiter, with the least that one does, with ours, with a rival. */
const SUBJECTS = {
  admitted: ['bare', 'floor', 'ours', 'rate-limit twice'],
  refused: ['bare', 'floor, refusing', 'ours, refusing', 'rate-limit, refusing'],
  'by Redis': ['bare', 'floor, Redis', 'ours, Redis', 'rate-limit, Redis']
} as const

/** Where the time of a request goes, for some servers. */
export interface Profile {
  /** What becomes of the requests. */
  readonly outcome: string
  readonly subjects: readonly Profiled[]
}

interface Profiled {
  readonly name: string
  /** Microseconds, by place. */
  readonly places: Numbers
}

/** Looks into servers that are sent requests by turns, so that what disturbs the machine disturbs all. */
export async function profiles(effort: Effort, root: string, hire: Hire): Promise<readonly Profile[]> {
  const found: Profile[] = []
  for (const [outcome, names] of Object.entries(SUBJECTS)) {
    if (outcome === 'by Redis' && effort.redis === undefined) continue
    const subjects = names.map(name => ({ name, variant: name, root }))
    found.push({ outcome, subjects: await profiled(subjects, effort, hire) })
  }
  return found
}

function profiled(subjects: readonly Subject[], effort: Effort, hire: Hire): Promise<readonly Profiled[]> {
  const tasks = subjects.map(subject => ({ ...subject, effort }))
  return withWorkers(hire, SERVER, tasks, 'measured', async workers => {
    const servers = await Promise.all(workers.map((worker, i) => Server.open(subjects[i]!, worker, effort)))
    const { warmUp, rounds, slice } = effort
    const turns = async (count: number): Promise<void> => {
      for (let turn = 0; turn < count; turn++) for (const server of servers) await server.slice(slice)
    }
    try {
      for (const server of servers) await server.fill()
      await turns(warmUp)
      for (const server of servers) await server.beginProfile()
      await turns(rounds)
      const found: Profiled[] = []
      for (const server of servers) {
        const spent = Object.entries(await server.endProfile())
        const places = Object.fromEntries(spent.map(([place, time]) => [place, time / (rounds * slice)]))
        found.push({ name: server.name, places })
      }
      return found
    } finally {
      for (const server of servers) server.close()
    }
  })
}

/** Microseconds below which a place has no line of its own. */
const LITTLE = 0.05

/** For people: a table for each outcome, a column for each server. */
export function profilesAsText(profiles: readonly Profile[]): string {
  const tables = profiles.map(({ outcome, subjects }) => {
    const places = subjects.map(subject => gathered(subject.places))
    const lines = places.map(({ lines }) => lines)
    const names = [...new Set(lines.flatMap(line => Object.keys(line)))]
    const most = (name: string): number => Math.max(...lines.map(line => line[name] ?? 0))
    const rows = names
      .toSorted((one, other) => most(other) - most(one))
      .map(name => [name, ...lines.map(line => (name in line ? number(line[name]!) : ''))])
    const sums = ['in all', ...places.map(({ sum }) => number(sum))]
    const own = ['of that, ours', ...places.map(({ own }) => (own === 0 ? '' : number(own)))]
    return table([`${outcome}, µs`, ...subjects.map(({ name }) => name)], [...rows, sums, own], [0])
  })
  return tables.map(lines => `${lines.join('\n')}\n`).join('\n')
}

/** The lines of a column; what is little is put together. */
function gathered(places: Numbers): { readonly lines: Numbers; readonly sum: number; readonly own: number } {
  const lines: Record<string, number> = {}
  let sum = 0
  let own = 0
  for (const [place, time] of Object.entries(places)) {
    const isOwn = place.startsWith(OURS)
    const line = time >= LITTLE ? place : isOwn ? `${OURS}the rest` : 'the rest'
    lines[line] = (lines[line] ?? 0) + time
    sum += time
    if (isOwn) own += time
  }
  return { lines, sum, own }
}
