/** Puts off what is done then. */
type PutOff = (work: () => void) => void

const byTick: PutOff = work => process.nextTick(work)
const byMicrotask: PutOff = work => queueMicrotask(work)

/** Functions that are put off to compare. */
const COUNT = 500
const TURNS = 40

/** How many times as long as `queueMicrotask` may `process.nextTick` take; it takes about as long, or six times so. */
const SLOWEST = 2.5

/**
 * Has `process.nextTick` compiled while nobody has used it otherwise: in some processes of Node.js it never is, which costs each
 * request as much as a limiter.
 */
export async function prewarm(): Promise<void> {
  for (let turn = 0; turn < 200; turn++) await timeOf(byTick)
}

/** Whether this is such a process. */
export async function isSlow(): Promise<boolean> {
  const ticks = await best(byTick)
  return ticks > SLOWEST * (await best(byMicrotask))
}

async function best(putOff: PutOff): Promise<number> {
  let least = Infinity
  for (let turn = 0; turn < TURNS; turn++) least = Math.min(least, await timeOf(putOff))
  return least
}

/** Milliseconds that it takes to put off what is done afterwards. */
async function timeOf(putOff: PutOff): Promise<number> {
  const start = performance.now()
  for (let i = 0; i < COUNT; i++) putOff(() => {})
  const took = performance.now() - start
  await new Promise(resolve => setImmediate(resolve))
  return took
}
