import t from 'tap'
import type { Reservation } from '../src/index.js'
import { acting, left, leftOf, listed, serve, stores, violated } from './plugin/kit.js'

const subject = { ip: '127.0.0.1' }

const tokens = { quota: 10, window: '10s', unit: 'tokens', default: false } as const

for (const [store, start] of Object.entries(stores)) {
  t.test(`with ${store} a reservation is a decision, and is settled down or up`, async t => {
    const { app } = await start(t, { tokens })
    const reservation = await app.quota.reserve(subject, 'tokens', 6)
    t.match(reservation, { outcome: 'allowed', exempt: [], shadow: [], source: 'memory' })
    t.equal(reservation.limits[0]?.remaining, 4)
    await reservation.settle(2)
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 8 })
    const other = await app.quota.reserve(subject, 'tokens', 1)
    await other.settle(7)
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 1 })
  })

  t.test(`with ${store} a reservation is settled or released once`, async t => {
    const { app } = await start(t, { tokens })
    const settled = await app.quota.reserve(subject, 'tokens', 6)
    await settled.settle(3)
    await t.rejects(settled.settle(3), { code: 'FST_QUOTA_SETTLED' })
    await t.rejects(settled.release(), { code: 'FST_QUOTA_SETTLED', message: /policy "tokens" is settled/ })
    const released = await app.quota.reserve(subject, 'tokens', 7)
    await released.release()
    await t.rejects(released.settle(1), { code: 'FST_QUOTA_SETTLED' })
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 7 })
  })

  t.test(`with ${store} a refused reservation charges nothing, and has nothing to correct`, async t => {
    const { app } = await start(t, { tokens })
    for (const units of [11, 1000]) {
      const reservation = await app.quota.reserve(subject, 'tokens', units)
      t.equal(reservation.outcome, 'refused')
      await reservation.settle(5)
      await reservation.release()
      await reservation.settle(0)
    }
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 10 })
  })

  t.test(`with ${store} two reservations of one policy are settled each, or both together`, async t => {
    const { app } = await start(t, { tokens })
    const act = acting(app, false)
    await act(async ({ quota }) => {
      const [one, two] = await Promise.all([quota.reserve('tokens', 4), quota.reserve('tokens', 5)])
      await one.settle(1)
      t.strictSame(await leftOf(app, ['tokens']), { tokens: 4 })
      await two.settle(2)
      await t.rejects(quota.settle('tokens', 1), { code: 'FST_QUOTA_SETTLED' })
    })
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 7 })
    await act(async ({ quota }) => {
      const one = await quota.reserve('tokens', 3)
      await quota.reserve('tokens', 4)
      await quota.settle('tokens', 2)
      await t.rejects(one.settle(3), { code: 'FST_QUOTA_SETTLED' })
      const another = await quota.reserve('tokens', 4)
      await another.settle(1)
    })
    t.strictSame(await leftOf(app, ['tokens']), { tokens: 4 }, '3 before, then 2 and 1')
  })

  t.test(
    `with ${store} what the hook charged and what the handler reserved are settled together`,
    async t => {
      const { app } = await start(t, { tokens: { ...tokens, cost: 2, default: true } })
      const act = acting(app)
      const answer = await act(async ({ quota }) => {
        const reservation = await quota.reserve('tokens', 5)
        t.equal(quota.limits[0]?.remaining, 3, 'the request knows')
        t.equal(reservation.limits[0]?.units, 5)
        await quota.settle('tokens', 6)
      })
      t.strictSame(left(answer), { tokens: 4 })
    }
  )

  t.test(`with ${store} a reservation that was refused is answered as the hook would`, async t => {
    const { app } = await start(t, { any: '9/10s', tokens })
    const act = acting(app)
    app.get('/hook', { config: { quota: { also: ['tokens'], cost: { tokens: 11 } } } }, async () => 'in')
    const seen: Reservation[] = []
    const refused = await act(async ({ quota }, reply) => {
      await quota.settle('any', 3)
      const reservation = await quota.reserve('tokens', 11)
      seen.push(reservation)
      return reply.refuse(reservation)
    })
    const byHook = await app.inject('/hook')
    t.equal(refused.statusCode, 429)
    t.strictSame(violated(refused), ['tokens'])
    t.strictSame([left(refused), listed(refused)], [left(byHook), listed(byHook)])
    t.equal(refused.body, byHook.body)
    await seen[0]!.settle(9)
    t.strictSame(await leftOf(app, ['any', 'tokens']), { any: 6, tokens: 10 })
  })
}

t.test('a reservation is about a request or about identities written by hand', async t => {
  const { app } = await serve(t, {
    identify: { user: async ({ headers }) => headers['x-user'] as string },
    policies: { tokens: { ...tokens, partition: 'user' } }
  })
  const act = acting(app, false)
  const reservations: Reservation[] = []
  await act(async request => void reservations.push(await app.quota.reserve(request, 'tokens', 4)), {
    headers: { 'x-user': '42' }
  })
  reservations.push(await app.quota.reserve({ user: '42' }, 'tokens', 5))
  t.strictSame(await leftOf(app, ['tokens'], { user: '42' }), { tokens: 1 })
  for (const reservation of reservations) await reservation.settle(1)
  t.strictSame(await leftOf(app, ['tokens'], { user: '42' }), { tokens: 8 })
})

t.test('mistakes of a caller are rejections, and change nothing', async t => {
  const { app } = await serve(t, { tokens })
  await t.rejects(app.quota.reserve(subject, 'tokenz', 1), {
    code: 'FST_QUOTA_POLICY',
    message: /no policy is named "tokenz"; did you mean "tokens"\?/
  })
  await t.rejects(app.quota.reserve({}, 'tokens', 1), { code: 'FST_QUOTA_SUBJECT' })
  await t.rejects(app.quota.reserve(subject, 'tokens', -1), {
    code: 'FST_QUOTA_OPTION',
    message: /units of reserve must be an integer from 0/
  })
  const reservation = await app.quota.reserve(subject, 'tokens', 3)
  await t.rejects(reservation.settle(1.5), {
    code: 'FST_QUOTA_OPTION',
    message: /units of settle must be an integer from 0/
  })
  await reservation.settle(1)
  t.strictSame(await leftOf(app, ['tokens']), { tokens: 9 })
})

t.test('a reservation of a shadow policy is allowed, and charged if there is room', async t => {
  const { app } = await serve(t, { trial: { ...tokens, mode: 'shadow' } })
  const first = await app.quota.reserve(subject, 'trial', 8)
  const second = await app.quota.reserve(subject, 'trial', 8)
  t.match([first.outcome, first.limits, first.shadow], ['allowed', [], [{ wouldRefuse: false }]])
  t.match([second.outcome, second.shadow], ['allowed', [{ policy: 'trial', wouldRefuse: true }]])
  await second.settle(10)
  await first.settle(2)
  t.match(await app.quota.reserve(subject, 'trial', 8), { shadow: [{ wouldRefuse: false }] })
})

t.test('fields follow a reservation of the route’s own policy', async t => {
  const { app } = await serve(t, { tokens: { ...tokens, default: true, cost: 1 } })
  const act = acting(app)
  let reservation: Reservation | undefined
  const answer = await act(async ({ quota }) => void (reservation = await quota.reserve('tokens', 5)))
  t.strictSame(left(answer), { tokens: 4 })
  await reservation!.settle(3)
  t.strictSame(await leftOf(app, ['tokens']), { tokens: 6 }, 'after the response')
  t.strictSame(left(await act(async ({ quota }) => (await quota.reserve('tokens', 4)).settle(1))), {
    tokens: 4
  })
  t.strictSame(left(await act(async ({ quota }) => void (await quota.reserve('tokens', 9)))), { tokens: 3 })
})
