import type { Profiler } from 'node:inspector'
import type { Numbers } from './worker.js'

/** What V8 calls what is no function: nothing to do, what is done outside of JavaScript, and its collector. */
const IDLE = '(idle)'
const OUTSIDE: Readonly<Record<string, string>> = {
  '(program)': 'outside of JavaScript',
  '(garbage collector)': 'garbage collection'
}

/** What the names of our own places begin with. */
export const OURS = 'ours: '

/** Microseconds that a profile has spent in each place, those of what functions of V8 and Node.js do for it included. */
export function timeByPlace({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): Numbers {
  const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]))
  const times: Record<string, number> = {}
  for (const [i, id] of samples.entries()) {
    const place = places.get(id)
    if (place !== undefined) times[place] = (times[place] ?? 0) + (timeDeltas[i] ?? 0)
  }
  return times
}

/** A file of ours, a package, or what else there is; `undefined` where nothing is done. */
function placeOf({ functionName, url }: Profiler.Profile['nodes'][number]['callFrame']): string | undefined {
  if (functionName === IDLE) return undefined
  const own = /\/dist\/src\/(.*)\.js$/.exec(url)?.[1]
  if (own !== undefined) return `${OURS}${own}`
  if (url.includes('/dist/test/')) return 'the bench'
  const library = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1]
  return library ?? OUTSIDE[functionName] ?? 'Node.js'
}
