import type { Samples, Stage } from '../stage.js'
import { withWorkers } from '../worker.js'

/** Loops in processes of their own, each run for some milliseconds in its turn. */
export const loops: Stage = {
  name: 'loops',
  twins: ['nothing', 'nothing again'],
  metrics: [{ name: 'ns', unit: 'ns', better: 'lower' }],
  measure(subjects, effort, hire) {
    const tasks = subjects.map(subject => ({ ...subject, effort }))
    return withWorkers(
      hire,
      new URL('looper.js', import.meta.url),
      tasks,
      'measured',
      async (workers): Promise<Samples> => {
        const samples = new Map(subjects.map(({ name }) => [name, { ns: [] as number[] }]))
        for (let round = 0; round < effort.rounds; round++) {
          for (let turn = 0; turn < workers.length; turn++) {
            const i = (turn + round) % workers.length
            const { ns } = await workers[i]!.ask('loop')
            samples.get(subjects[i]!.name)!.ns.push(ns!)
          }
        }
        return samples
      }
    )
  }
}
