/** Does something so many times. */
export type Loop = (times: number) => unknown

const FEWEST = 100
const MOST = 50_000_000

/**
 * Runs a loop until all of it has been compiled, and finds how many times take a batch.
 * @param batch Nanoseconds.
 * @param runs Runs at least. It is slow at first, and what takes a batch then takes none later.
 */
export async function settle(run: Loop, batch: number, runs: number): Promise<number> {
  let times = FEWEST
  for (let done = 1; ; done++) {
    if ((await took(run, times)) < batch && times < MOST) times *= 2
    else if (done >= runs) return times
  }
}

/** Nanoseconds of CPU: what else the machine does takes none of it. */
export async function took(run: Loop, times: number): Promise<number> {
  const before = process.cpuUsage()
  await run(times)
  const { user, system } = process.cpuUsage(before)
  return (user + system) * 1000
}
