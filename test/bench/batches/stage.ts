import type { Sample, Stage } from '../stage.js'
import { withWorkers } from '../worker.js'

/** What batches save, and what they cost. */
export const batches: Stage = {
  name: 'batches',
  metrics: [],
  measure(subjects, effort, hire) {
    const tasks = subjects.map(subject => ({ ...subject, effort }))
    return withWorkers(hire, new URL('spenders.js', import.meta.url), tasks, 'all', async workers => {
      const told = await Promise.all(workers.map(worker => worker.ask('counts')))
      const samples = told.map(counts =>
        Object.fromEntries(Object.entries(counts).map(([metric, count]) => [metric, [count]]))
      )
      return new Map<string, Sample>(subjects.map(({ name }, i) => [name, samples[i]!]))
    })
  }
}
