import type { Sample, Stage } from '../stage.js'
import { withWorkers } from '../worker.js'

/** Parts of a flood, so that what disturbs the machine disturbs all. */
const PARTS = 50

/** How long an event loop is kept from its work while a flood of new clients comes, in processes that are flooded by turns. */
export const pauses: Stage = {
  name: 'pauses',
  metrics: [],
  measure(subjects, effort, hire) {
    const tasks = subjects.map(subject => ({ ...subject, effort }))
    return withWorkers(hire, new URL('flooded.js', import.meta.url), tasks, 'measured', async workers => {
      for (let part = 0; part < PARTS; part++) {
        for (const worker of workers) await worker.ask(String(1 / PARTS))
      }
      const told = await Promise.all(workers.map(worker => worker.ask('0')))
      return new Map<string, Sample>(
        subjects.map(({ name }, i) => [name, { p999: [told[i]!['p999']!], longest: [told[i]!['longest']!] }])
      )
    })
  }
}
