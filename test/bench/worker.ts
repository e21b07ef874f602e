import type { Owner } from '../redis/servers.js'
import type { Cores } from './pinning.js'
import type { Effort, Subject } from './stage.js'

/** What a worker is told as it begins. */
export interface Task extends Subject {
  readonly effort: Effort
}

/** What workers tell. */
export type Numbers = Readonly<Record<string, number>>

/** What a worker tells when it is ready, and how it answers from then on. */
export interface Ready {
  readonly begun: Numbers
  readonly answer: (question: string) => Numbers | Promise<Numbers>
}

/** What each module exports that a worker is made of. `owner` ends what it starts. */
export type Begin = (task: Task, owner: Owner) => Promise<Ready>

/** A subject at work, which answers one question after the other. */
export interface Worker {
  readonly begun: Numbers
  ask(question: string): Promise<Numbers>
  end(): Promise<void>
}

/** Sets a module to work on a task. */
export type Hire = (module: URL, task: Task, cores: Cores) => Promise<Worker>

/** Sets a module to work on all tasks, lets somebody ask, and ends all whatever happens. */
export async function withWorkers<R>(
  hire: Hire,
  module: URL,
  tasks: readonly Task[],
  cores: Cores,
  use: (workers: readonly Worker[]) => Promise<R>
): Promise<R> {
  const hiring = tasks.map(task => hire(module, task, cores))
  try {
    return await use(await Promise.all(hiring))
  } finally {
    for (const hired of await Promise.allSettled(hiring)) {
      if (hired.status === 'fulfilled') await hired.value.end()
    }
  }
}
