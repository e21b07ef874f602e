import t from 'tap'
import type { AlgorithmName, PolicyOptions, RequestQuota } from '../src/index.js'
import { acting, left, leftOf, serve, stores } from './plugin/kit.js'

/** Ten units in ten seconds, of which a request costs six before it is settled. */
const ten: PolicyOptions = { quota: 10, window: '10s', unit: 'tokens', cost: 6 }

const ALGORITHMS: readonly AlgorithmName[] = [
  'sliding-window',
  'sliding-window-log',
  'sliding-window-counter',
  'fixed-window',
  'token-bucket',
  'leaky-bucket'
]

type Timeline = readonly (readonly [seconds: number, left: number])[]

/** What is left at some times, in seconds after the request was charged; it is settled after the first of them. */
interface Story {
  readonly settled: number
  readonly left: Readonly<Record<AlgorithmName, Timeline>> | Timeline
}

const SAME_FOR_CONCURRENCY: Timeline = []

const stories: Readonly<Record<string, Story>> = {
  'is told at once that less was used': { settled: 1, left: [[0, 9]] },
  'is told at once that more was used': { settled: 9, left: [[0, 1]] },
  'is told what it knew': { settled: 6, left: [[0, 4]] },
  'is told that nothing was used': { settled: 0, left: [[0, 10]] },
  'is told later that less was used': {
    settled: 1,
    left: {
      'sliding-window': [
        [4, 9],
        [9.999, 9],
        [10, 10]
      ],
      'sliding-window-log': [
        [4, 9],
        [9.999, 9],
        [10, 10]
      ],
      'sliding-window-counter': [
        [4, 9],
        [10, 9],
        [11, 10]
      ],
      'fixed-window': [
        [4, 9],
        [9.999, 9],
        [10, 10]
      ],
      'token-bucket': [[4, 10]],
      'leaky-bucket': [[4, 10]],
      concurrency: SAME_FOR_CONCURRENCY
    }
  },
  'is told when its window is over that less was used': {
    settled: 1,
    left: [
      [12, 10],
      [30, 10]
    ]
  },
  'is told later that more was used than there is': {
    settled: 15,
    left: {
      'sliding-window': [
        [4, 0],
        [9.999, 0],
        [10, 1],
        [13.999, 1],
        [14, 10]
      ],
      'sliding-window-log': [
        [4, 0],
        [9.999, 0],
        [10, 1],
        [13.999, 1],
        [14, 10]
      ],
      'sliding-window-counter': [
        [4, 0],
        [10.5, 0],
        [11, 1],
        [14, 1],
        [14.5, 6],
        [15, 10]
      ],
      'fixed-window': [
        [4, 0],
        [9.999, 0],
        [10, 10]
      ],
      'token-bucket': [
        [4, 0],
        [5, 0],
        [6, 1],
        [15, 10]
      ],
      'leaky-bucket': [
        [4, 0],
        [5, 0],
        [6, 1],
        [15, 10]
      ],
      concurrency: SAME_FOR_CONCURRENCY
    }
  },
  'is told when its window is over that more was used': {
    settled: 15,
    left: {
      'sliding-window': [
        [12, 1],
        [21.999, 1],
        [22, 10]
      ],
      'sliding-window-log': [
        [12, 1],
        [21.999, 1],
        [22, 10]
      ],
      'sliding-window-counter': [
        [12, 1],
        [22, 1],
        [23, 10]
      ],
      'fixed-window': [
        [12, 1],
        [21.999, 1],
        [22, 10]
      ],
      'token-bucket': [
        [12, 1],
        [13, 2],
        [21, 10]
      ],
      'leaky-bucket': [
        [12, 1],
        [13, 2],
        [21, 10]
      ],
      concurrency: SAME_FOR_CONCURRENCY
    }
  },
  'is told of more than a quota of debt, which is dropped': {
    settled: 1000,
    left: {
      'sliding-window': [
        [0, 0],
        [9.999, 0],
        [10, 10]
      ],
      'sliding-window-log': [
        [0, 0],
        [9.999, 0],
        [10, 10]
      ],
      'sliding-window-counter': [
        [0, 0],
        [10.5, 0],
        [10.95, 9],
        [11, 10]
      ],
      'fixed-window': [
        [0, 0],
        [9.999, 0],
        [10, 10]
      ],
      'token-bucket': [
        [0, 0],
        [10, 0],
        [11, 1],
        [20, 10]
      ],
      'leaky-bucket': [
        [0, 0],
        [10, 0],
        [11, 1],
        [20, 10]
      ],
      concurrency: SAME_FOR_CONCURRENCY
    }
  }
}

for (const [store, start] of Object.entries(stores)) {
  for (const [what, story] of Object.entries(stories)) {
    for (const algorithm of ALGORITHMS) {
      t.test(`${algorithm} with ${store}: it ${what}`, async t => {
        const { app, clock } = await start(t, { tokens: { ...ten, algorithm } })
        const act = acting(app)
        const timeline: Timeline = Array.isArray(story.left)
          ? (story.left as Timeline)
          : (story.left as Readonly<Record<AlgorithmName, Timeline>>)[algorithm]
        const charged = clock.now
        await act(async ({ quota }) => {
          t.strictSame(await leftOf(app, ['tokens']), { tokens: 4 }, 'reserved by the hook')
          clock.now = charged + timeline[0]![0] * 1000
          await quota.settle('tokens', story.settled)
        })
        const seen: unknown[] = []
        for (const [seconds] of timeline) {
          clock.now = charged + seconds * 1000
          seen.push([seconds, (await leftOf(app, ['tokens']))['tokens']])
        }
        t.strictSame(seen, timeline)
      })
    }
  }

  t.test(`with ${store} each spend has a receipt, and a surplus comes back latest first`, async t => {
    const { app, clock } = await start(t, { tokens: { ...ten, cost: 2 } })
    const act = acting(app)
    const charged = clock.now
    await act(async ({ quota }) => {
      clock.pass(2000)
      await quota.spend('tokens', 3)
      clock.pass(2000)
      await quota.spend('tokens', 4)
      t.strictSame(await leftOf(app, ['tokens']), { tokens: 1 })
      await quota.settle('tokens', 6)
    })
    const seen: unknown[] = []
    for (const seconds of [4, 10, 12, 14]) {
      clock.now = charged + seconds * 1000
      seen.push((await leftOf(app, ['tokens']))['tokens'])
    }
    t.strictSame(
      seen,
      [4, 6, 9, 10],
      'the units of the first charge leave first, and those of the last are fewer'
    )
  })

  t.test(`with ${store} a settlement larger than all receipts takes them all, and no other's`, async t => {
    const { app, clock } = await start(t, { tokens: { ...ten, cost: 1 } })
    const act = acting(app)
    await app.quota.consume({ ip: '127.0.0.1' }, { tokens: 2 })
    await act(async ({ quota }) => {
      clock.pass(1000)
      await quota.spend('tokens', 3)
      await app.quota.consume({ ip: '127.0.0.1' }, { tokens: 1 })
      await quota.release('tokens')
    })
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 7 })
  })

  t.test(`with ${store} what is never settled keeps its cost`, async t => {
    const { app } = await start(t, { tokens: ten })
    const act = acting(app)
    await act(async ({ quota }) => void (await quota.reserve('tokens', 3)))
    await act(async () => {})
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 1 })
  })

  t.test(`with ${store} a request is settled once`, async t => {
    const { app } = await start(t, { tokens: ten })
    const act = acting(app)
    const code = 'FST_QUOTA_SETTLED'
    await act(async ({ quota }) => {
      await quota.settle('tokens', 5)
      for (const again of [
        () => quota.settle('tokens', 5),
        () => quota.settle('tokens', 1),
        () => quota.release('tokens'),
        () => quota.spend('tokens', 1)
      ]) {
        await t.rejects(again(), { code, message: /policy "tokens" is settled for this request already/ })
      }
    })
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 5 })
    await act(async ({ quota }) => t.resolves(quota.settle('tokens', 0)), { remoteAddress: '192.0.2.1' })
  })

  t.test(`with ${store} the fields follow what is settled before the response leaves`, async t => {
    const { app } = await start(t, { other: '9/10s', tokens: ten })
    const act = acting(app)
    const settled = await act(async ({ quota }) => {
      await quota.settle('tokens', 2)
      t.strictSame(
        quota.limits.map(({ remaining }) => remaining),
        [8, 8]
      )
    })
    t.equal(settled.headers['ratelimit'], '"tokens";r=8;t=10, "other";r=8;t=10')
    t.equal(settled.headers['ratelimit-policy'], '"other";q=9;w=10, "tokens";q=10;qu="tokens";w=10')
    t.strictSame(left(await act(async ({ quota }) => quota.spend('tokens', 1))), { tokens: 1, other: 7 })
  })
}

t.test('the fields follow what is settled in a hook, and in a stream before its first byte', async t => {
  const { app } = await serve(t, { tokens: ten })
  app.addHook('preHandler', async ({ quota, url }) => {
    if (url === '/') await quota.settle('tokens', 1)
  })
  app.addHook('onSend', async ({ quota, url }) => {
    if (url === '/late') await quota.settle('tokens', 1)
  })
  app.get('/late', async () => 'late')
  t.strictSame(left(await app.inject('/')), { tokens: 9 })
  t.strictSame(left(await app.inject({ url: '/late', remoteAddress: '192.0.2.1' })), { tokens: 4 })
  t.strictSame(await leftOf(app, ['tokens'], { ip: '192.0.2.1' }), { tokens: 9 }, 'settled all the same')
})

t.test('the older fields follow too', async t => {
  const { app } = await serve(t, {
    policies: { tokens: ten },
    legacy: { style: 'x-ratelimit', reset: 'delta' }
  })
  const act = acting(app)
  const { headers } = await act(({ quota }) => quota.settle('tokens', 2))
  t.match(headers, { 'x-ratelimit-remaining': '8', ratelimit: '"tokens";r=8;t=10' })
})

t.test('the fields of a response that carries none stay away when it is settled', async t => {
  const { app } = await serve(t, { tokens: ten })
  const act = acting(app)
  const { headers } = await act(async ({ quota }, reply) => {
    await quota.settle('tokens', 2)
    return reply.redirect('/elsewhere')
  })
  t.notOk('ratelimit' in headers || 'ratelimit-policy' in headers)
})

t.test('a response that has left can still be settled, and then no field changes', async t => {
  const { app } = await serve(t, { tokens: ten })
  const done = new Promise<void>((resolve, reject) => {
    app.addHook('onResponse', async ({ quota }) => {
      await quota.settle('tokens', 1).then(resolve, reject)
    })
  })
  t.strictSame(left(await app.inject('/')), { tokens: 4 })
  await done
  t.strictSame(await leftOf(app, ['tokens']), { tokens: 9 })
})

t.test('a cost of nothing is settled to what it was', async t => {
  const { app } = await serve(t, { tokens: { ...ten, cost: 0 } })
  const act = acting(app)
  t.strictSame(left(await act(({ quota }) => quota.settle('tokens', 7))), { tokens: 3 })
  await act(async ({ quota }) => {
    const nothing = await quota.reserve('tokens', 0)
    await nothing.settle(2)
  })
  t.strictSame(await leftOf(app, ['tokens']), { tokens: 1 })
})

t.test('what a policy refused has nothing to correct', async t => {
  const { app } = await serve(t, { tokens: { ...ten, quota: 5 }, other: '9/10s' })
  app.addHook('onSend', async ({ quota }) => {
    await quota.settle('tokens', 100)
    await quota.release('tokens')
    await quota.settle('other', 9)
  })
  t.equal((await app.inject('/')).statusCode, 429)
  t.strictSame(await leftOf(app, ['tokens', 'other']), { tokens: 5, other: 9 })
})

t.test(
  'a request that is exempt is never charged: not when it is settled, nor when it spends or reserves',
  async t => {
    const { app } = await serve(t, {
      tokens: { ...ten, exempt: ({ headers }) => headers['x-admin'] === 'yes' }
    })
    const act = acting(app)
    const spend = async ({ quota }: { quota: RequestQuota }): Promise<void> => {
      await quota.settle('tokens', 1)
      await quota.spend('tokens', 2)
      const reservation = await quota.reserve('tokens', 1000)
      t.match(reservation, { outcome: 'allowed', limits: [], exempt: ['tokens'], source: 'none' })
      await reservation.settle(3)
      await reservation.settle(3)
      t.strictSame(await leftOf(app, ['tokens']), { tokens: 10 })
      await quota.release('tokens')
    }
    const { statusCode, headers } = await act(spend, { headers: { 'x-admin': 'yes' } })
    t.equal(statusCode, 200)
    t.notOk('ratelimit' in headers)
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 10 })
  }
)

t.test('a route without quota, and a hook before the plugin’s, can spend, reserve and settle', async t => {
  const { app } = await serve(t, {
    identify: { user: async ({ headers }) => headers['x-user'] as string },
    policies: { tokens: { ...ten, partition: 'user', default: false } }
  })
  const act = acting(app, false)
  const answer = await act(
    async ({ quota }) => {
      t.equal(quota.outcome, 'none')
      await quota.settle('tokens', 9)
      await quota.spend('tokens', 2)
      await quota.spend('tokens', 1)
      await quota.reserve('tokens', 4)
      await quota.settle('tokens', 5)
      t.equal(quota.outcome, 'none')
    },
    { headers: { 'x-user': '42' } }
  )
  t.notOk('ratelimit' in answer.headers)
  t.strictSame(await leftOf(app, ['tokens'], { user: '42' }), { tokens: 5 })
})

t.test('what is spent before the hook is settled with what the hook charged', async t => {
  const { app, clock } = await serve(t, { tokens: { ...ten, cost: 2, hook: 'preHandler' } })
  app.addHook('onRequest', async ({ quota }) => {
    await quota.spend('tokens', 3)
    clock.pass(100)
  })
  const act = acting(app)
  const answer = await act(async ({ quota }) => {
    t.equal(quota.limits[0]?.remaining, 5)
    await quota.settle('tokens', 4)
  })
  t.strictSame(left(answer), { tokens: 6 })
})

t.test('identities that are asked for by two reservations at once are waited for by both', async t => {
  const { app } = await serve(t, {
    identify: {
      user: ({ headers }) => new Promise(resolve => setImmediate(resolve, headers['x-user'] as string))
    },
    policies: { tokens: { ...ten, partition: 'user', default: false } }
  })
  const act = acting(app, false)
  await act(
    ({ quota }) => Promise.all([quota.reserve('tokens', 1), quota.spend('tokens', 2)]).then(() => ''),
    {
      headers: { 'x-user': '42' }
    }
  )
  t.strictSame(await leftOf(app, ['tokens'], { user: '42' }), { tokens: 7 })
})

const mistakes: Readonly<Record<string, (quota: RequestQuota, policy: string, units: number) => unknown>> = {
  reserve: (quota, policy, units) => quota.reserve(policy, units),
  spend: (quota, policy, units) => quota.spend(policy, units),
  settle: (quota, policy, units) => quota.settle(policy, units)
}

for (const [call, make] of Object.entries(mistakes)) {
  t.test(`${call} rejects what is a mistake of the caller, and changes nothing`, async t => {
    const { app } = await serve(t, { tokens: ten })
    const act = acting(app)
    await act(async ({ quota }) => {
      await t.rejects(make(quota, 'token', 1) as Promise<unknown>, {
        code: 'FST_QUOTA_POLICY',
        message: /no policy is named "token"; did you mean "tokens"\?/
      })
      for (const units of [-1, 0.5, NaN, Infinity, 2 ** 53, '1', undefined]) {
        await t.rejects(make(quota, 'tokens', units as number) as Promise<unknown>, {
          code: 'FST_QUOTA_OPTION',
          message: new RegExp(`units of ${call} must be an integer from 0 to`)
        })
      }
      await t.rejects(quota.release('token'), { code: 'FST_QUOTA_POLICY' })
    })
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 4 })
  })
}

t.test('a policy is settled without regard to others', async t => {
  const { app } = await serve(t, { a: ten, b: ten })
  const act = acting(app)
  const answer = await act(async ({ quota }) => {
    await quota.settle('a', 1)
    await quota.settle('b', 2)
  })
  t.strictSame(left(answer), { a: 9, b: 8 })
})

t.test('shadow policies are settled too', async t => {
  const { app } = await serve(t, { trial: { ...ten, mode: 'shadow' }, any: '9/10s' })
  const act = acting(app)
  const answer = await act(({ quota }) => quota.settle('trial', 8))
  t.strictSame(left(answer), { any: 8 })
  t.strictSame(await leftOf(app, ['any']), { any: 8 })
  await act(async ({ quota }) => {
    t.strictSame(quota.shadow, [{ policy: 'trial', wouldRefuse: true }], '2 are left')
    await quota.settle('trial', 0)
  })
})
