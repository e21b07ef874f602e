import t from 'tap'
import { compilePolicy } from '../src/policy.js'
import { createWarnings, fullWarning, hopeless, smallBurst, subSecond } from '../src/warnings.js'

interface Heard {
  readonly name: string
  readonly code: string
  readonly message: string
}

/** What the process is warned of while `run` runs. */
function heard(run: () => void): readonly Heard[] {
  const emitted = t.capture(process, 'emitWarning')
  run()
  emitted.restore()
  return emitted().map(({ args: [message, name, code] }) => ({ message, name, code }) as unknown as Heard)
}

t.test('each advice says what happens and what to write', async t => {
  const warnings = createWarnings()
  const table: readonly (readonly [warn: () => void, code: string, message: string])[] = [
    [
      () => warnings.earlyRoutes('GET /'),
      'FST_QUOTA_EARLY_ROUTES',
      'routes were declared before fastify-quota was loaded (GET /); they are limited, but their config.quota is only ' +
        'checked at their first request: write `await app.register(quota, …)` before the first route'
    ],
    [
      () => warnings.stages('GET /', 'onRequest, preHandler'),
      'FST_QUOTA_STAGES',
      'GET / is decided in several stages (onRequest, preHandler): each is a decision of its own; give the route a ' +
        '`hook` to decide once'
    ],
    [
      () => warnings.untrustedForwarding('X-Forwarded-For'),
      'FST_QUOTA_FORWARDED',
      'forwarded headers arrive untrusted: a request had X-Forwarded-For, but request.ip is the address of its ' +
        "connection, so all clients behind that proxy count as one; set trustProxy to the proxy's addresses, such as " +
        "'10.0.0.0/8'"
    ],
    [
      () => warnings.chosenAddress(),
      'FST_QUOTA_SPOOFABLE',
      'clients may choose their address: the app believes a forwarded chain to its leftmost entry, which the client may have ' +
        "written; set trustProxy to the proxies' addresses, such as '10.0.0.0/8', instead of trusting everybody"
    ],
    [
      () => warnings.noAddress(),
      'FST_QUOTA_NO_ADDRESS',
      'a request had no client address (a Unix socket has none); all such requests share one partition'
    ],
    [
      () => warnings.longWindow('daily', '86400', 'GET /'),
      'FST_QUOTA_LONG_WINDOW',
      'policy "daily" has a window of 86400 seconds and no shorter one beside it on GET /: a client may spend all of it at ' +
        'once; add a policy of the same unit with a short window'
    ],
    [
      () => warnings.noRoutes(),
      'FST_QUOTA_NO_ROUTES',
      'fastify-quota may limit nothing: the scope that registers it declares no route after it, and routes elsewhere do not have it; ' +
        'wrap the function that registers it with fastify-plugin, or register it where the routes are, before them'
    ],
    [
      () => warnings.lateIdentity('user'),
      'FST_QUOTA_LATE_IDENTITY',
      'the identity "user" was empty when quota was decided and known later in the same request; give the policies that ' +
        "count by it a later `hook`, such as 'preHandler', or authenticate in onRequest"
    ],
    [
      () => warnings.redundant('wide', 'small'),
      'FST_QUOTA_REDUNDANT',
      'policy "wide" never refuses: "small" counts the same wherever it does, has no more, and is used up first; remove it, ' +
        'or give it a longer window, another unit or another partition'
    ],
    [
      () => warnings.newcomers('each'),
      'FST_QUOTA_NEWCOMERS',
      'policy "each" limits nobody: of the first 100 partitions that it has counted, hardly one came back in their window; ' +
        "count by who is asking, such as partition: 'ip' or an identity that authentication has verified, and not by what " +
        'is new with each request'
    ],
    [
      () => warnings.unlimited('GET /, POST /'),
      'FST_QUOTA_UNLIMITED',
      'no policy limits GET /, POST /, for none is a default there: name one in config.quota, or write quota: false'
    ],
    [
      () => warnings.give([subSecond('burst', 1500)]),
      'FST_QUOTA_SUB_SECOND',
      'policy "burst": its window of 1500 ms is announced as 2 s, since the fields know whole seconds only; clients ' +
        'that pace themselves run slower than they may: give it a window of whole seconds'
    ],
    [
      () => warnings.give([smallBurst('burst', 5)]),
      'FST_QUOTA_SMALL_BURST',
      'policy "burst": it holds no more than 5, which refills in less than a second, the shortest window the fields ' +
        'know; clients that pace themselves run slower than they may: raise burst or maxDelay'
    ],
    [
      () => warnings.give([hopeless('GET /', 'burst', 21, 20)]),
      'FST_QUOTA_COST',
      'GET /: each request costs 21, more than the 20 that policy "burst" can ever hold, so all are refused: give it a ' +
        'higher quota or burst, or the request a lower cost'
    ],
    [
      () => fullWarning()('100'),
      'FST_QUOTA_MEMORY_FULL',
      'the memory store is full with 100 partitions: for each newcomer it forgets somebody who has quota to spare, or ' +
        'counts newcomers together; raise maxPartitions or maxBytes, or count by something that clients cannot invent'
    ]
  ]
  for (const [warn, code, message] of table) {
    t.strictSame(heard(warn), [{ message, name: 'FastifyQuotaWarning', code }])
  }
})

t.test('advice to an app is remembered as it was given', async t => {
  const warnings = createWarnings()
  const advice = [subSecond('a', 500), subSecond('b', 500)]
  t.equal(warnings.noAddress.emitted, false)
  const told = heard(() => {
    warnings.noAddress()
    warnings.noAddress()
    warnings.longWindow('daily', 'GET /')
    warnings.give(advice)
  })
  t.equal(warnings.noAddress.emitted, true)
  t.strictSame(
    warnings.given,
    told.map(({ code, message }) => ({ code, message }))
  )
  t.strictSame(warnings.given.slice(2), advice)
  t.match(warnings.given[1], { message: 'policy "daily" has a window' })
  const again = heard(() => {
    for (let i = 0; i < 100; i++) warnings.give(advice)
    warnings.give([subSecond('c', 500)])
  })
  t.match(again, [{ message: 'policy "c"' }], 'each message is given once')
  t.equal(warnings.given.length, 5)
})

t.test('advice about an app is given once, and again for another app', async t => {
  const first = createWarnings()
  const second = createWarnings()
  t.equal(
    heard(() => {
      first.noAddress()
      first.noAddress()
    }).length,
    1
  )
  t.equal(heard(() => second.noAddress()).length, 1)
})

t.test('a policy says what is unwise about it', async t => {
  const codes = (written: object, name = 'a'): readonly string[] =>
    compilePolicy(name, written, []).advice.map(({ code, message }) => `${code} ${message.slice(0, 10)}`)
  const table: readonly (readonly [written: object, codes: readonly string[]])[] = [
    [{ quota: 1, window: '1s' }, []],
    [{ quota: 1, window: '500ms' }, ['FST_QUOTA_SUB_SECOND policy "a"']],
    [{ quota: 1, window: '1500ms', algorithm: 'fixed-window' }, ['FST_QUOTA_SUB_SECOND policy "a"']],
    [{ quota: 1, window: '1500ms', algorithm: 'sliding-window-log' }, ['FST_QUOTA_SUB_SECOND policy "a"']],
    [{ quota: 0, window: '1500ms', algorithm: 'token-bucket' }, ['FST_QUOTA_SUB_SECOND policy "a"']],
    [{ quota: 1, window: '1500ms', algorithm: 'token-bucket' }, ['FST_QUOTA_SUB_SECOND policy "a"']],
    [{ quota: 1, window: '1500ms', algorithm: 'token-bucket', burst: 2 }, []],
    [{ quota: 1, window: '1500ms', algorithm: 'leaky-bucket', maxDelay: '2s' }, []],
    [{ quota: 1, algorithm: 'concurrency' }, []],
    [
      { quota: 100, window: '1s', algorithm: 'leaky-bucket', maxDelay: '100ms' },
      ['FST_QUOTA_SMALL_BURST policy "a"']
    ],
    [{ quota: 10, window: '1s', algorithm: 'token-bucket', burst: 10 }, []],
    [{ quota: 10, window: '1s', algorithm: 'token-bucket', burst: 9 }, ['FST_QUOTA_SMALL_BURST policy "a"']],
    [{ quota: 1, window: '999ms', algorithm: 'token-bucket' }, ['FST_QUOTA_SMALL_BURST policy "a"']],
    [{ quota: 1, window: '1000ms', algorithm: 'token-bucket' }, []]
  ]
  for (const [written, expected] of table) t.strictSame(codes(written), expected, JSON.stringify(written))
  t.strictSame(codes({ quota: 1, window: '500ms' }, 'b'), ['FST_QUOTA_SUB_SECOND policy "b"'])
})

t.test('advice about a plan is the same whatever its quotas', async t => {
  const codes = (written: object): readonly string[] => {
    const { advice, withQuota } = compilePolicy('plan', { quota: () => 1, ...written }, [])
    for (const quota of [0, 1, 10, 1000]) t.strictSame(withQuota(quota).advice, advice)
    return advice.map(({ code }) => code)
  }
  t.strictSame(codes({ window: '1500ms' }), ['FST_QUOTA_SUB_SECOND'])
  t.strictSame(codes({ window: '1s' }), [])
  t.strictSame(codes({ window: '1s', algorithm: 'token-bucket', burst: 5 }), [])
  t.strictSame(codes({ window: '500ms', algorithm: 'token-bucket', burst: 5 }), [])
  t.strictSame(codes({ window: '500ms', algorithm: 'leaky-bucket', maxDelay: '5s' }), [])
})
