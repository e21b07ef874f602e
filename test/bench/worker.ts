import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { pinned } from './pinning.js'
import type { Cores } from './pinning.js'
import type { Effort, Subject } from './stage.js'

/** What a worker is told as it starts. */
export interface Task extends Subject {
  readonly effort: Effort
}

/** What workers tell. */
export type Numbers = Readonly<Record<string, number>>

const FLAGS = ['--expose-gc', '--max-old-space-size=4096']

/** A subject at work: a process that answers one question after the other. */
export class Worker {
  /** What it told when it was ready. */
  readonly begun: Numbers
  readonly #child: ChildProcess
  readonly #name: string

  private constructor(child: ChildProcess, name: string, begun: Numbers) {
    this.#child = child
    this.#name = name
    this.begun = begun
  }

  /** Starts a module that calls {@link work}, and waits until it is ready. */
  static async start(module: URL, task: Task, cores: Cores): Promise<Worker> {
    const script = fileURLToPath(module)
    const command = [process.execPath, ...FLAGS, script, JSON.stringify(task)] as const
    const [program, ...args] = pinned(cores, command)
    const child = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    return new Worker(child, task.name, await answerOf(child, task.name))
  }

  ask(question: string): Promise<Numbers> {
    this.#child.send(question)
    return answerOf(this.#child, this.#name)
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.disconnect()
    await gone
  }
}

/** The next answer of a process; rejects if it ends instead. */
function answerOf(child: ChildProcess, name: string): Promise<Numbers> {
  return new Promise((resolve, reject) => {
    const answered = (answer: Numbers): void => {
      child.off('exit', ended)
      resolve(answer)
    }
    const ended = (code: number | null, signal: string | null): void => {
      child.off('message', answered)
      reject(new Error(`${name} has ended with ${code ?? signal} instead of an answer`))
    }
    child.once('message', answered).once('exit', ended)
  })
}

/** How a worker answers. */
export type Answering = (question: string) => Numbers | Promise<Numbers>

/**
 * The side of the worker: begins with its task, tells what it begins with, and answers questions until nobody asks any more.
 */
export async function work(
  begin: (task: Task) => Promise<readonly [begun: Numbers, answer: Answering]>
): Promise<void> {
  process.on('disconnect', () => process.exit())
  const [begun, answer] = await begin(JSON.parse(process.argv.at(-1)!) as Task)
  process.on('message', (question: string) => void reply(answer, question))
  process.send!(begun)
}

async function reply(answer: Answering, question: string): Promise<void> {
  process.send!(await answer(question))
}

/** Starts the same module for each subject, lets somebody use them, and ends them whatever happens. */
export async function withWorkers<R>(
  module: URL,
  tasks: readonly Task[],
  cores: Cores,
  use: (workers: readonly Worker[]) => Promise<R>
): Promise<R> {
  const starting = tasks.map(task => Worker.start(module, task, cores))
  try {
    return await use(await Promise.all(starting))
  } finally {
    for (const started of await Promise.allSettled(starting)) {
      if (started.status === 'fulfilled') await started.value.end()
    }
  }
}
