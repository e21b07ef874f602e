import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { pinned } from './pinning.js'
import type { Hire, Numbers } from './worker.js'

const FLAGS = ['--expose-gc', '--max-old-space-size=4096', '--no-warnings']

/** Processes that are tried for a worker, until one is not slow for a reason of its own. */
const TRIES = 6

/** Lets each worker have a process of its own. */
export const inProcesses: Hire = async (...work) => {
  for (let tries = 1; ; tries++) {
    const worker = await inProcess(...work)
    if (worker.begun['slow'] === 0 || tries === TRIES) return worker
    await worker.end()
  }
}

const inProcess: Hire = async (module, task, cores) => {
  const script = fileURLToPath(new URL('process.js', import.meta.url))
  const [program, ...args] = pinned(cores, [
    process.execPath,
    ...FLAGS,
    script,
    module.href,
    JSON.stringify(task)
  ])
  const child = spawn(program, args, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc']
  })
  const begun = await answerOf(child, task.name)
  return {
    begun: { ...begun, pid: child.pid ?? NaN },
    ask(question) {
      child.send(question)
      return answerOf(child, task.name)
    },
    async end() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const gone = once(child, 'exit')
      child.disconnect()
      await gone
    }
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
