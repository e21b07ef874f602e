import fc from 'fast-check'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { build } from '../examples/first-limits/app.js'
import { playground } from '../examples/first-limits/playground.js'
import { mostInAnyWindow } from '../src/simulate/measure.js'

// The playground without a browser: what its server does, and what its page computes.

/** The API of first-limits with its playground. */
async function open(t: Test): Promise<FastifyInstance> {
  const app = await build()
  t.teardown(() => app.close())
  await app.register(playground)
  return app
}

interface Asked {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

async function ask(app: FastifyInstance, policy: object): Promise<Asked> {
  const response = await app.inject({ method: 'POST', url: '/trials', payload: policy })
  return { status: response.statusCode, body: response.json() }
}

t.test('the page and what it is made of can be had without a quota', async t => {
  const app = await open(t)
  const page = await app.inject('/')
  t.equal(page.headers['content-type'], 'text/html; charset=utf-8')
  const parts = [...page.payload.matchAll(/(?:href|src)="(\/[^"]+)"/g)].map(([, path]) => path!)
  t.strictSame(parts, ['/style.css', '/page.js'])
  const modules = new Set(parts)
  for (const path of modules) {
    const { statusCode, headers, payload } = await app.inject(path)
    t.equal(statusCode, 200, path)
    t.equal(
      headers['content-type'],
      `text/${path.endsWith('.js') ? 'javascript' : 'css'}; charset=utf-8`,
      path
    )
    t.equal(headers['ratelimit'], undefined, path)
    for (const [, name] of payload.matchAll(/^import .* from '\.(\/[^']+)'$/gm)) modules.add(name!)
  }
  t.ok(modules.size > 5)
})

t.test('a trial is an API with the policy that was chosen, and tells when it decided', async t => {
  const app = await open(t)
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  const { status, body } = await ask(app, { algorithm: 'fixed-window', quota: 2, window: 10 })
  t.equal(status, 201)
  t.strictSame(body, { url: '/trials/1', quota: 2, window: 10_000 })
  const clock = async (): Promise<number> => Number(await (await fetch(`${address}/clock`)).text())
  let last = await clock()
  for (const expected of [200, 200, 429]) {
    const response = await fetch(`${address}/trials/1`)
    t.equal(response.status, expected)
    t.equal(response.headers.get('ratelimit-policy'), '"playground";q=2;w=10')
    const at = Number(response.headers.get('x-decided-at'))
    t.ok(at >= last)
    last = at
    await response.text()
  }
  t.ok((await clock()) >= last)
  t.match((await ask(app, { quota: 2, window: 10 })).body, { url: '/trials/2' }, 'each has its own')
  t.equal((await fetch(`${address}/trials/2`)).status, 200)
})

t.test('the plugin says what is no policy, and the playground what is too much for it', async t => {
  const app = await open(t)
  for (const [policy, mistake] of [
    [{ quota: 1.5, window: 2 }, /^policy "playground": quota must be an integer from 0 to \d+, got 1\.5$/],
    [{ window: 2 }, /^policy "playground": quota is required/],
    [{ quota: 1, window: 2, algorithm: 'fixed' }, /^policy "playground": algorithm must be .*, got "fixed"/],
    [{ quota: 0, window: 2 }, /^the playground takes a quota of 1 to 100 and a window of at most 10 s$/],
    [{ quota: 101, window: 2 }, /^the playground takes/],
    [{ quota: 1, window: 11 }, /^the playground takes/],
    [{ quota: 1, algorithm: 'concurrency' }, /^the playground takes/]
  ] as const) {
    t.match(await ask(app, policy), { status: 400, body: { mistake } })
  }
  t.equal((await app.inject('/trials/1')).statusCode, 404)
})

t.test('when there are many trials, the oldest is forgotten', async t => {
  const app = await open(t)
  for (let i = 0; i < 21; i++) await ask(app, { quota: 1, window: 1 })
  t.equal((await app.inject('/trials/1')).statusCode, 404)
  t.equal((await app.inject('/trials/2')).statusCode, 200)
  t.equal((await app.inject('/trials/21')).statusCode, 200)
})

/** A module of the page, which browsers take as it is written. */
const load = async <M>(file: string): Promise<M> =>
  (await import(new URL(`../../examples/first-limits/playground/${file}`, import.meta.url).href)) as M

interface Step {
  readonly at: number
  readonly count: number
}

interface Count {
  readonly countInWindow: (times: readonly number[], window: number) => readonly Step[]
  readonly highest: (steps: readonly Step[]) => Step
}

t.test('the page counts what is in a window as the simulator does', async t => {
  const { countInWindow, highest } = await load<Count>('count.js')
  const moment = fc.integer({ min: 0, max: 50 })
  fc.assert(
    fc.property(fc.array(moment), fc.integer({ min: 1, max: 20 }), (times, window) => {
      const steps = countInWindow(times, window)
      const admissions = times.map(at => ({ at, units: 1 }))
      t.equal(highest(steps).count, mostInAnyWindow(admissions, window))
      for (let now = 0; now <= 80; now++) {
        const counted = steps.findLast(({ at }) => at <= now)?.count ?? 0
        t.equal(counted, times.filter(at => at > now - window && at <= now).length)
      }
    })
  )
})

interface Terms {
  readonly quota: number
  readonly window: number
}

interface Attack {
  readonly waves: (terms: Terms) => readonly { readonly at: number; readonly requests: number }[]
  readonly phase?: (terms: Terms) => number
}

t.test('an attack begins with a request, goes on in order, and ends', async t => {
  const { ATTACKS } = await load<{ readonly ATTACKS: Readonly<Record<string, Attack>> }>('attacks.js')
  const terms: readonly Terms[] = [
    { quota: 1, window: 1000 },
    { quota: 10, window: 2000 },
    { quota: 100, window: 10_000 }
  ]
  for (const [name, attack] of Object.entries(ATTACKS)) {
    for (const { quota, window } of terms) {
      const waves = attack.waves({ quota, window })
      const times = waves.map(({ at }) => at)
      t.equal(times[0], 0, name)
      t.ok(waves[0]!.requests >= 1, name)
      t.strictSame(
        times,
        times.toSorted((a, b) => a - b),
        name
      )
      t.ok(times.at(-1)! <= 2.5 * window, name)
      const requests = waves.reduce((sum, wave) => sum + wave.requests, 0)
      t.ok(requests >= 2 * quota && requests <= 15 * quota, `${name}: ${requests} for ${quota}`)
      t.ok(Math.abs(attack.phase?.({ quota, window }) ?? 0) < window, name)
    }
  }
})
