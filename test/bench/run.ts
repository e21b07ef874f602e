import { hasRedis, startRedis } from '../redis/servers.js'
import type { Owner } from '../redis/servers.js'
import type { Wish } from './command-line.js'
import { changesOf, judge, twinsOf } from './judging.js'
import { besideEachOther, besideRivals, measureAll, variantsOf } from './measure.js'
import type { Commit } from './measure.js'
import { pin } from './pinning.js'
import type { Report } from './report.js'
import { built } from './revision.js'
import type { Row } from './row.js'
import type { Effort } from './stage.js'
import { stages } from './stages.js'
import type { Hire } from './worker.js'

/** How a run is made, besides what was wished for. */
export interface Terms {
  readonly effort: Omit<Effort, 'rounds' | 'redis'>
  readonly tell: (line: string) => void
  readonly hire: Hire
  /** Ends what was started. */
  readonly owner: Owner
}

type Comparison = Pick<Wish, 'rows' | 'rounds' | 'compare'>

export const HERE: Commit = { mark: '', root: new URL('../../../', import.meta.url).href }

/** Measures, beside rivals or beside another revision, and compares. */
export async function run({ rows, rounds, compare }: Comparison, terms: Terms): Promise<Report> {
  const start = performance.now()
  const { owner, tell } = terms
  const other = compare === undefined ? undefined : await revision(compare, terms)
  const redis = rows.some(needsRedis) ? await ownRedis(owner) : undefined
  const possible = rows.filter(row => !needsRedis(row) || redis !== undefined)
  const plan = new Map(
    stages.map(stage => {
      const variants = variantsOf(stage, possible)
      const subjects =
        other === undefined ? besideRivals(variants, HERE) : besideEachOther(stage, variants, [HERE, other])
      return [stage, subjects] as const
    })
  )
  const findings = await measureAll(plan, { ...terms.effort, rounds, redis }, terms.hire, tell)
  const twins = twinsOf(findings)
  return {
    node: process.versions.node,
    rounds,
    seconds: (performance.now() - start) / 1000,
    twins,
    results: other === undefined ? judge(rows, findings, twins) : [],
    changes: other === undefined ? [] : changesOf(findings, other.mark, twins),
    notes: possible.length === rows.length ? [] : [NO_REDIS]
  }
}

const NO_REDIS = 'There is no redis-server on this machine: what needs one is skipped.'

const needsRedis = ({ redis }: Row): boolean => redis === true

async function revision(name: string, { owner, tell }: Terms): Promise<Commit> {
  tell(`${name}: is built`)
  return { mark: ` of ${name}`, root: await built(owner, HERE.root, name) }
}

/** The port of a Redis that is there for this run alone, beside what asks and not beside what is measured, if there can be one. */
export async function ownRedis(owner: Owner): Promise<number | undefined> {
  if (!hasRedis()) return undefined
  const { port, pid } = await startRedis(owner)
  await pin('asking', pid)
  return port
}
