import type { Row } from './row.js'
import type { Effort, Samples, Stage, Subject } from './stage.js'

/** A commit of ours. */
export interface Commit {
  /** What is added to the names of its subjects. */
  readonly mark: string
  readonly root: string
}

/** Whether a variant runs code of ours, so that another commit has another one. */
export const isOurs = (variant: string): boolean => variant.startsWith('ours')

/** What a stage has to measure for these rows, and its twins: each variant of ours once for each commit. */
export function subjectsOf(
  stage: Stage,
  rows: readonly Row[],
  commits: readonly [Commit, ...Commit[]],
  rivals: 'with rivals' | 'without rivals'
): readonly Subject[] {
  const asked = rows.filter(row => row.stage === stage.name).flatMap(({ subjects }) => subjects)
  const wanted = rivals === 'with rivals' ? asked : asked.filter(isOurs)
  if (wanted.length === 0) return []
  return [...new Set([...(stage.twins ?? []), ...wanted])].flatMap(variant =>
    (isOurs(variant) ? commits : commits.slice(0, 1)).map(({ mark, root }) => ({
      name: isOurs(variant) ? variant + mark : variant,
      variant,
      root
    }))
  )
}

/** What each stage has measured. */
export type Findings = ReadonlyMap<Stage, Samples>

/** Lets all stages measure their subjects, one stage after the other. */
export async function measureAll(
  plan: ReadonlyMap<Stage, readonly Subject[]>,
  effort: Effort,
  tell: (stage: Stage, subjects: readonly Subject[]) => void
): Promise<Findings> {
  const findings = new Map<Stage, Samples>()
  for (const [stage, subjects] of plan) {
    if (subjects.length === 0) continue
    tell(stage, subjects)
    findings.set(stage, await stage.measure(subjects, effort))
  }
  return findings
}
