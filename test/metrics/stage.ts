import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Parts } from '../faults/faults.js'
import { startProxy } from '../redis/proxy.js'
import { startRedis } from '../redis/servers.js'
import type { Owner } from '../redis/servers.js'
import { Load } from './load.js'
import { hastened } from './pace.js'
import { Prometheus } from './prometheus.js'
import type { Target } from './prometheus.js'
import { ALERTS } from './watching.js'

/** Requests a second of each kind, to each app. */
const RATE = 15

/** All that takes part: two apps that share a Redis, one of them across a network that can be bad, and one that is crowded. */
export interface Stage extends Parts {
  /** Milliseconds. */
  readonly minute: number
  readonly prometheus: Prometheus
  /** Of the apps with Redis. */
  readonly loads: readonly Load[]
  readonly crowd: Load
  /** Ports, to read from what Prometheus reads. */
  readonly targets: readonly Target[]
}

/** Starts all, without Redis: it has been killed when the apps start. A minute of Prometheus takes so many milliseconds. */
export async function startStage(owner: Owner, minute: number): Promise<Stage> {
  const redis = await startRedis(owner, '--appendonly', 'yes', '--appendfsync', 'no')
  const proxy = await startProxy(owner, redis)
  await redis.kill()
  const [direct, far, crowded] = await Promise.all(
    [String(redis.port), String(proxy.port), 'memory'].map(where => startApp(owner, where))
  )
  const loads = [direct!, far!].map(port => Load.ofAll(port, RATE))
  const crowd = Load.ofCrowd(crowded!)
  for (const load of [...loads, crowd]) owner.teardown(() => load.stop())
  const targets = [
    { port: direct!, job: 'api', instance: 'direct' },
    { port: far!, job: 'api', instance: 'far' },
    { port: crowded!, job: 'crowded', instance: 'crowded' }
  ]
  const rules = hastened(readFileSync(ALERTS, 'utf8'), minute)
  const prometheus = await Prometheus.start(owner, { targets, rules, minute })
  await prometheus.awaitMore(`count(up) == ${targets.length}`)
  return { minute, redis, proxy, prometheus, loads, crowd, targets }
}

/** The port of an app in a process of its own. */
async function startApp(owner: Owner, where: string): Promise<number> {
  // Without the test runner's loaders and coverage.
  const env = { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '' }
  const file = fileURLToPath(new URL('app.js', import.meta.url))
  const child = fork(file, [where], { env, execArgv: ['--enable-source-maps', '--no-warnings'] })
  owner.teardown(() => child.kill('SIGKILL'))
  const gone = once(child, 'exit').then(([code]) => {
    throw new Error(`the app has ended with ${code}`)
  })
  const [port] = await Promise.race([once(child, 'message'), gone])
  gone.catch(() => {})
  return port as number
}
