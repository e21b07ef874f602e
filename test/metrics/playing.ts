import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Firing, Span } from './prometheus.js'
import type { Scene } from './scenes.js'
import type { Stage } from './stage.js'

/** Minutes that a scene lasts at least, and for which one is watched after that for which nothing fires. */
const LEAST = 4
const QUIET = 8

/** What was seen of a scene. Times are milliseconds of the epoch. */
export interface Played {
  readonly scene: Scene
  /** From its begin to its end. */
  readonly during: Span
  /** What fired from its begin until its alerts were over. */
  readonly firings: readonly Firing[]
  /** Milliseconds that this process stood still, one time in a thousand: what a machine does that has others to serve. */
  readonly stood: number
}

/** Plays a scene when none of its alerts is active, unless it is on already. It lasts until they have fired, and is watched until they are over. */
export async function play(stage: Stage, scene: Scene): Promise<Played> {
  const { prometheus, minute } = stage
  if (scene.atBoot !== true) await prometheus.awaitEnd(scene.alerts)
  const loop = monitorEventLoopDelay({ resolution: 1 })
  loop.enable()
  const from = Date.now()
  const end = await scene.begin(stage)
  try {
    await Promise.all([sleep(LEAST * minute), prometheus.awaitFiring(scene.alerts)])
  } finally {
    await end()
  }
  const to = Date.now()
  if (scene.alerts.length === 0) await sleep(QUIET * minute)
  else await prometheus.awaitEnd(scene.alerts)
  loop.disable()
  const firings = await prometheus.firings({ from, to: Date.now() })
  return { scene, during: { from, to }, firings, stood: loop.percentile(99.9) / 1e6 }
}

/** When an alert of a scene fired, and when that was over: minutes after the begin and after the end of the scene. */
export interface Times {
  readonly alert: string
  readonly fired: number
  readonly cleared: number
}

export function timesOf({ during, firings }: Played, minute: number): readonly Times[] {
  return [...new Set(firings.map(({ alert }) => alert))].map(alert => {
    const own = firings.filter(firing => firing.alert === alert)
    return {
      alert,
      fired: (Math.min(...own.map(({ from }) => from)) - during.from) / minute,
      cleared: (Math.max(...own.map(({ to }) => to)) - during.to) / minute
    }
  })
}
