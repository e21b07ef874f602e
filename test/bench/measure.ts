import type { Row } from './row.js'
import type { Effort, Samples, Stage, Subject } from './stage.js'
import type { Hire } from './worker.js'

/** A commit of ours. */
export interface Commit {
  /** What is added to the names of its subjects. */
  readonly mark: string
  /** Its folder, a URL with `/` at its end. */
  readonly root: string
}

/** Whether a variant runs code of ours, so that another commit has another one. */
export const isOurs = (variant: string): boolean => variant.startsWith('ours')

/** What a stage has to measure for these rows: its twins too. */
export function variantsOf({ name, twins }: Stage, rows: readonly Row[]): readonly string[] {
  const asked = rows.filter(({ stage }) => stage === name).flatMap(({ subjects }) => subjects)
  return asked.length === 0 ? [] : [...new Set([...(twins ?? []), ...asked])]
}

/** Of this commit alone, to be compared with rivals. */
export function besideRivals(variants: readonly string[], { root }: Commit): readonly Subject[] {
  return variants.map(variant => ({ name: variant, variant, root }))
}

/** Of two commits, to be compared with each other, and what both are to be compared with: the twins. */
export function besideEachOther(
  { twins, metrics }: Stage,
  variants: readonly string[],
  commits: readonly Commit[]
): readonly Subject[] {
  const own = variants.filter(isOurs)
  if (own.length === 0 || metrics.length === 0) return []
  return [
    ...(twins ?? []).map(variant => ({ name: variant, variant, root: commits[0]!.root })),
    ...own.flatMap(variant => commits.map(({ mark, root }) => ({ name: variant + mark, variant, root })))
  ]
}

/** What each stage has measured. */
export type Findings = ReadonlyMap<Stage, Samples>

/** Lets all stages measure their subjects, one stage after the other. */
export async function measureAll(
  plan: ReadonlyMap<Stage, readonly Subject[]>,
  effort: Effort,
  hire: Hire,
  tell: (line: string) => void
): Promise<Findings> {
  const findings = new Map<Stage, Samples>()
  for (const [stage, subjects] of plan) {
    if (subjects.length === 0) continue
    tell(`${stage.name}: ${subjects.length} to be measured`)
    findings.set(stage, await stage.measure(subjects, effort, hire))
  }
  return findings
}
