import type { Sample, Stage } from '../stage.js'
import { withWorkers } from '../worker.js'

/** What partitions take, each way in a process of its own. */
export const memory: Stage = {
  name: 'memory',
  metrics: [{ name: 'bytes', unit: 'B', better: 'lower' }],
  measure(subjects, effort, hire) {
    const tasks = subjects.map(subject => ({ ...subject, effort }))
    return withWorkers(hire, new URL('holder.js', import.meta.url), tasks, 'all', async workers => {
      const told = await Promise.all(workers.map(worker => worker.ask('bytes')))
      return new Map<string, Sample>(subjects.map(({ name }, i) => [name, { bytes: [told[i]!['bytes']!] }]))
    })
  }
}
