import { fileURLToPath } from 'node:url'
import rateLimit from '@fastify/rate-limit'
import Fastify from 'fastify'
import quota from 'fastify-quota'
import { audit } from 'fastify-quota/audit'
import type { FastifyInstance } from 'fastify'
import type { AuditResult } from 'fastify-quota/audit'
import { fromFastifyRateLimit } from 'fastify-quota/migrate'

/** As somebody has written it for `@fastify/rate-limit`. */
export interface Options {
  readonly max: number
  /** Milliseconds. */
  readonly timeWindow: number
}

/** The app before, after its options were moved, and with windows that slide. */
const LIMITERS: Readonly<Record<string, (app: FastifyInstance, options: Options) => PromiseLike<unknown>>> = {
  '@fastify/rate-limit': (app, options) => app.register(rateLimit, options),
  'fastify-quota': (app, options) => app.register(quota, fromFastifyRateLimit(options)),
  'and sliding-window': (app, options) =>
    app.register(quota, fromFastifyRateLimit(options, { algorithm: 'sliding-window' }))
}

const ATTACKS = ['drained', 'edge-burst', 'parallel']

/** Attacks all of them in the same way, over HTTP and in real time: some ten windows each. */
export async function compare(options: Options): Promise<ReadonlyMap<string, AuditResult>> {
  const results = new Map<string, AuditResult>()
  for (const [name, limit] of Object.entries(LIMITERS)) {
    const app = Fastify()
    await limit(app, options)
    app.get('/', () => 'served')
    const url = await app.listen({ port: 0, host: '127.0.0.1' })
    const promise = { quota: options.max, window: `${options.timeWindow}ms` }
    results.set(name, await audit({ url }, { ...promise, attacks: ATTACKS }))
    await app.close()
  }
  return results
}

/** A line for each attack: the most that was admitted in any window, and how many times the quota that is. */
export function table(results: ReadonlyMap<string, AuditResult>): string {
  const rows = ATTACKS.map(attack => [
    attack,
    ...[...results.values()].map(({ attacks }) => {
      const { mostInAnyWindow, excess } = attacks.find(({ name }) => name === attack)!
      return `${mostInAnyWindow}  ${excess.toFixed(2)}x`
    })
  ])
  const verdicts = [...results.values()].map(({ promiseKept }) => (promiseKept ? 'kept' : 'broken'))
  return [['', ...results.keys()], ...rows, ['promise', ...verdicts]]
    .map(([first = '', ...cells]) => `${first.padEnd(10)}${cells.map(cell => cell.padStart(22)).join('')}`)
    .join('\n')
}

/* Run by itself, it shows them side by side. */
/* c8 ignore start: it takes minutes, and tests take smaller windows */
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const options = { max: 250, timeWindow: 5000 }
  console.log(`${options.max} in ${options.timeWindow / 1000} s; the most that was admitted in any:\n`)
  console.log(table(await compare(options)))
}
/* c8 ignore stop */
