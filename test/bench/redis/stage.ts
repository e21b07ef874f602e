import type { Samples, Stage } from '../stage.js'
import { withWorkers } from '../worker.js'

/** Clients of one Redis, each in a process of its own, that ask it by turns. */
export const redis: Stage = {
  name: 'redis',
  twins: ['a script', 'a script again'],
  metrics: [
    { name: 'cpu', unit: 'µs', better: 'lower' },
    { name: 'wall', unit: 'µs', better: 'lower' }
  ],
  measure(subjects, effort, hire) {
    const tasks = subjects.map(subject => ({ ...subject, effort }))
    return withWorkers(
      hire,
      new URL('asker.js', import.meta.url),
      tasks,
      'measured',
      async (workers): Promise<Samples> => {
        const samples = new Map(
          subjects.map(({ name }) => [name, { cpu: [] as number[], wall: [] as number[] }])
        )
        for (let round = -effort.warmUp; round < effort.rounds; round++) {
          for (let turn = 0; turn < workers.length; turn++) {
            const i = (turn + Math.abs(round)) % workers.length
            const { cpu, wall } = await workers[i]!.ask('slice')
            if (round < 0) continue
            const { name } = subjects[i]!
            samples.get(name)!.cpu.push(cpu!)
            samples.get(name)!.wall.push(wall!)
          }
        }
        return samples
      }
    )
  }
}
