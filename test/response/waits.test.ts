import { parseItem } from 'structured-headers'
import t from 'tap'
import type { AlgorithmName, PolicyOptions } from '../../src/index.js'
import { NOON, members, start, told } from '../fixtures/wire.js'
import type { Started } from '../fixtures/wire.js'

const ALGORITHMS: readonly AlgorithmName[] = ['sliding-window', 'fixed-window', 'token-bucket']

/** Sends a request at each time, in milliseconds after the first, and tells what came back. */
async function at(
  { app, clock }: Started,
  times: readonly number[]
): Promise<readonly (readonly unknown[])[]> {
  const seen: (readonly unknown[])[] = []
  for (const time of times) {
    clock.now = NOON + time
    seen.push(told(await app.inject('/')))
  }
  return seen
}

t.test('Retry-After is seconds, no less than t, and the body says the same', async t => {
  for (const algorithm of ALGORITHMS) {
    const { app, clock } = await start(t, { policies: { minute: { quota: 5, window: 60, algorithm } } })
    for (let i = 0; i < 5; i++) {
      t.equal((await app.inject('/')).statusCode, 200)
      clock.now += 400
    }
    const refused = await app.inject('/')
    t.equal(refused.statusCode, 429)
    const wait = refused.headers['retry-after']
    t.match(wait, /^[1-9]\d*$/)
    t.ok(Number(wait) <= 60, algorithm)
    t.equal(members(refused.headers['ratelimit'])[0]?.['t'], Number(wait), algorithm)
    t.match(refused.json().detail, `Try again in ${wait} seconds.`, algorithm)
  }
})

t.test('the wait is what is left of it, not the whole window', async t => {
  for (const algorithm of ALGORITHMS) {
    const server = await start(t, {
      policies: { minute: { quota: 1, window: 60, algorithm } },
      legacy: { style: 'x-ratelimit', reset: 'delta' }
    })
    t.strictSame(
      await at(server, [0, 10_000, 50_000, 59_500]),
      [
        [200, '"minute";r=0;t=60', undefined],
        [429, '"minute";r=0;t=50', '50'],
        [429, '"minute";r=0;t=10', '10'],
        [429, '"minute";r=0;t=1', '1']
      ],
      algorithm
    )
    const { headers } = await server.app.inject('/')
    t.equal(headers['x-ratelimit-reset'], headers['retry-after'], algorithm)
  }
})

t.test('the reset of a used up quota is there, and falls with time', async t => {
  for (const algorithm of ALGORITHMS) {
    const server = await start(t, { policies: { minute: { quota: 2, window: 60, algorithm } } })
    const seen = await at(server, [0, 1000, 2000, 3000, 4000, 5000])
    const waits = seen.slice(2).map(([status, limit, retryAfter]) => {
      t.equal(status, 429, algorithm)
      t.equal(members(limit)[0]?.['t'], Number(retryAfter), algorithm)
      return Number(retryAfter)
    })
    const [first = 0] = waits
    t.ok(first > 0)
    t.strictSame(waits, [first, first - 1, first - 2, first - 3], algorithm)
  }
})

t.test('a wait is rounded up, and a client that obeys it is served', async t => {
  for (const algorithm of ALGORITHMS) {
    const server = await start(t, { policies: { short: { quota: 1, window: 3, algorithm } } })
    t.strictSame(
      await at(server, [0, 1100, 3000, 3100]),
      [
        [200, '"short";r=0;t=3', undefined],
        [429, '"short";r=0;t=2', '2'],
        [200, '"short";r=0;t=3', undefined],
        [429, '"short";r=0;t=3', '3']
      ],
      algorithm
    )
    const obedient = await start(t, { policies: { short: { quota: 1, window: 3, algorithm } } })
    t.strictSame(
      (await at(obedient, [0, 1100, 3100])).map(([status]) => status),
      [200, 429, 200],
      algorithm
    )
  }
})

t.test('the last request that fits is served with r=0 and no Retry-After', async t => {
  for (const algorithm of ALGORITHMS) {
    const { app } = await start(t, { policies: { five: { quota: 5, window: 10, algorithm } } })
    const seen: unknown[] = []
    for (let i = 0; i < 6; i++) {
      const { statusCode, headers } = await app.inject('/')
      seen.push([statusCode, members(headers['ratelimit'])[0]?.['r'], headers['retry-after'] === undefined])
    }
    t.strictSame(
      seen,
      [
        [200, 4, true],
        [200, 3, true],
        [200, 2, true],
        [200, 1, true],
        [200, 0, true],
        [429, 0, false]
      ],
      algorithm
    )
  }
})

t.test('Retry-After is a plain positive integer in every window, whatever the clock does', async t => {
  for (const algorithm of ALGORITHMS) {
    for (const window of ['1500ms', '500ms', '1ms', '7d', '400d', '4000d'] as const) {
      const policy: PolicyOptions = { quota: 1, window, algorithm }
      const { app, clock } = await start(t, { policies: { only: policy } })
      await app.inject('/')
      for (const step of [0, -1, -86_400_000, -7]) {
        clock.now += step
        const { statusCode, headers } = await app.inject('/')
        t.equal(statusCode, 429, `${algorithm} ${window} ${step}`)
        const wait = String(headers['retry-after'])
        t.match(wait, /^[1-9]\d*$/, `${algorithm} ${window} ${step}`)
        t.equal(parseItem(wait)[0], Number(wait))
        t.ok(Number(wait) <= 2_147_483, 'and no more than a timer of Node.js can wait')
      }
    }
  }
})

t.test('a wait beyond the longest timer is cut, in every field that tells it', async t => {
  const server = await start(t, {
    policies: { months: '1/60d', years: '1/3650d' },
    legacy: { style: 'x-ratelimit', reset: 'delta' }
  })
  await at(server, [0])
  const refused = await server.app.inject('/')
  t.strictSame(told(refused), [429, '"years";r=0;t=2147483, "months";r=0;t=2147483', '2147483'])
  t.equal(refused.headers['ratelimit-policy'], '"months";q=1;w=5184000, "years";q=1;w=315360000')
  t.match(refused.json().detail, /Try again in 25 days\.$/)
})

t.test('a wait for several units is cut too, although one unit is left', async t => {
  const { app } = await start(t, { policies: { months: { quota: 3, window: '60d', cost: 2 } } })
  t.strictSame(told(await app.inject('/')), [200, '"months";r=1;t=5184000', undefined])
  t.strictSame(told(await app.inject('/')), [429, '"months";r=1;t=2147483', '2147483'])
})
