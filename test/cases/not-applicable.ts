import type { CaseId } from './ids.js'

interface NotApplicable {
  readonly id: CaseId
  /** Why nothing of it can happen here. */
  readonly reason: string
}

/** Cases that have no test. */
export const notApplicable: readonly NotApplicable[] = []
