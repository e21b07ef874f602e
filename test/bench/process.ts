import { isSlow, prewarm } from './ticking.js'
import type { Begin, Ready, Task } from './worker.js'

/*
 * The process of a worker: `process.js MODULE TASK`. It tells what it begins with, and whether it is one of the slow ones,
 * answers questions, and ends when nobody can ask any more; what it has started ends with it.
 */

process.on('disconnect', () => process.exit())

const [module = '', task = ''] = process.argv.slice(2)
await prewarm()
const { begin } = (await import(module)) as { readonly begin: Begin }
const { begun, answer } = await begin(JSON.parse(task) as Task, { teardown: () => {} })
process.on('message', (question: string) => void reply(answer, question))
if (process.connected) process.send!({ ...begun, slow: Number(await isSlow()) })

async function reply(answer: Ready['answer'], question: string): Promise<void> {
  const told = await answer(question)
  if (process.connected) process.send!(told)
}
