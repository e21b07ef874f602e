import t from 'tap'
import type { Test } from 'tap'
import { serve } from '../plugin/kit.js'
import { startRedis } from '../redis/servers.js'
import { load, start, switchedAt, switches, watched } from './bench.js'
import type { Policies, Served, Told } from './bench.js'

t.setTimeout(120_000)

const CONNECTIONS = 6
const REQUESTS = 60

/** What is to be true of a load, and its numbers. */
function judge(t: Test, statuses: readonly number[], sent: number, told: readonly Told[]): number {
  const admitted = statuses.filter(status => status === 200).length
  t.equal(statuses.length, sent, 'each request was answered')
  t.strictSame(new Set(statuses), new Set([200, 429]), 'by being served or refused')
  t.equal(
    told.reduce((handled, process) => handled + process.handled, 0),
    admitted,
    'what was told to be served was served, once'
  )
  for (const { arrived } of told)
    t.comment(`the field switched at ${switchedAt(arrived).join(', ')} of ${arrived.length}`)
  t.comment(`${sent} sent, ${admitted} served, ${sent - admitted} refused, 0 lost`)
  return admitted
}

/** In one process, whose time stands still, so that all requests are in one window; updates come at equal distances. */
async function inMemory(
  t: Test,
  path: '/now' | '/later',
  updates: readonly Policies[]
): Promise<{ readonly admitted: number; readonly told: Told }> {
  const { app } = await serve(t, { shared: { quota: 80, window: '1m', partition: 'global' } })
  const told = watched(app)
  const origin = await app.listen({ host: '127.0.0.1', port: 0 })
  const sent = CONNECTIONS * REQUESTS
  const every = Math.floor(sent / (updates.length + 1))
  const statuses = await load(
    t,
    [origin],
    { path, connections: CONNECTIONS, requests: REQUESTS },
    updates.map((policies, i) => ({
      after: every * (i + 1),
      make: async () => void app.quota.update({ policies })
    }))
  )
  return { admitted: judge(t, statuses, sent, [told()]), told: told() }
}

const field = (quota: number, window: number = 60): string => `"shared";q=${quota};w=${window}`

t.test('quotas that change under load lose no request and admit no unit more than the largest', async t => {
  const { admitted, told } = await inMemory(t, '/now', [
    { shared: { quota: 240 } },
    { shared: { quota: 60 } },
    { shared: { quota: 140 } }
  ])
  // 80 of the first 90, and most of the next 90: the others met a quota that they had spent.
  t.ok(admitted >= 160 && admitted <= 240, `${admitted} of at most 240`)
  const fields = [80, 240, 60, 140].map(quota => field(quota))
  t.strictSame(switches(told.answered), fields, 'on one response each time, and no old one comes after it')
})

t.test('requests that are in hand meanwhile end as they began, and none that comes later does', async t => {
  const { admitted, told } = await inMemory(t, '/later', [
    { shared: { quota: 240 } },
    { shared: { quota: 100 } }
  ])
  t.ok(admitted >= 160 && admitted <= 240, `${admitted} of at most 240`)
  t.strictSame(
    switches(told.arrived),
    [80, 240, 100].map(quota => field(quota))
  )
})

t.test('another window or algorithm under load admits at most what both admit', async t => {
  const { admitted, told } = await inMemory(t, '/now', [
    { shared: { quota: 60, window: '2m' } },
    { shared: { quota: 20, algorithm: 'fixed-window' } }
  ])
  t.equal(admitted, 80 + 60 + 20, 'all of each quota, and not one unit more')
  t.strictSame(switches(told.answered), [field(80), field(60, 120), field(20, 120)])
})

/** In two processes, which change one after the other while both are under load: the first when `after` requests were answered. */
async function overRedis(
  t: Test,
  updates: readonly { readonly after: number; readonly policies: Policies }[]
): Promise<{ readonly admitted: number; readonly told: readonly Told[] }> {
  const { port } = await startRedis(t)
  const policies = { shared: { quota: 80, window: '30m', partition: 'global' } } as const
  const processes: readonly Served[] = [await start(t, port, policies), await start(t, port, policies)]
  const statuses = await load(
    t,
    processes.map(({ origin }) => origin),
    { path: '/now', connections: CONNECTIONS, requests: REQUESTS },
    updates.flatMap(({ after, policies }) =>
      processes.map((process, i) => ({ after: after + 40 * i, make: () => process.update(policies) }))
    )
  )
  const told = await Promise.all(processes.map(process => process.told()))
  return { admitted: judge(t, statuses, CONNECTIONS * REQUESTS * 2, told), told }
}

t.test(
  'processes that share a quota in Redis change under load, and admit no more than the larger one',
  async t => {
    const { admitted, told } = await overRedis(t, [
      { after: 180, policies: { shared: { quota: 240 } } },
      { after: 480, policies: { shared: { quota: 60 } } }
    ])
    t.equal(admitted, 240, 'all of the larger quota, and not one unit more')
    for (const { arrived, answered } of told) {
      const fields = [80, 240, 60].map(quota => field(quota, 1800))
      t.strictSame(switches(arrived), fields)
      t.strictSame(switches(answered), fields, 'on one response of each process')
    }
  }
)

t.test('and no more than both admit, if the window is another one', async t => {
  const { admitted, told } = await overRedis(t, [
    { after: 240, policies: { shared: { quota: 60, window: '45m' } } }
  ])
  t.equal(admitted, 80 + 60, 'all of each quota, and not one unit more')
  for (const { answered } of told) t.strictSame(switches(answered), [field(80, 1800), field(60, 2700)])
})
