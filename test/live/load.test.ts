import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { Client } from 'undici'
import type { UpdateOptions } from '../../src/index.js'
import { serve } from '../plugin/kit.js'

t.setTimeout(120_000)

const CONNECTIONS = 6
const REQUESTS = 60

/** What was told on one connection, in the order of its requests. */
interface Told {
  readonly status: number
  readonly policyField: string
}

type Policies = UpdateOptions['policies']

/**
 * Sends requests on several connections at the same time, one after the other on each, and makes each update when so many
 * answers have come. Time stands still, so that all requests are in one window.
 */
async function underLoad(
  t: Test,
  updates: readonly Policies[]
): Promise<{ readonly connections: readonly (readonly Told[])[]; readonly admitted: number }> {
  const { app } = await serve(t, { shared: { quota: 80, window: '1m', partition: 'global' } })
  let handled = 0
  app.get('/work', async () => {
    handled++
    await new Promise(resolve => setImmediate(resolve)) // in hand for a while
    return 'done'
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const every = Math.floor((CONNECTIONS * REQUESTS) / (updates.length + 1))
  let answered = 0
  const count = (): void => {
    answered++
    const due = updates[answered / every - 1]
    if (due !== undefined) app.quota.update({ policies: due })
  }
  const connections = await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const client = new Client(`http://127.0.0.1:${port}`, { pipelining: 1 })
      t.teardown(() => client.destroy())
      const told: Told[] = []
      for (let i = 0; i < REQUESTS; i++) {
        const { statusCode, headers, body } = await client.request({ method: 'GET', path: '/work' })
        await body.dump()
        told.push({ status: statusCode, policyField: String(headers['ratelimit-policy']) })
        count()
      }
      return told
    })
  )
  const admitted = connections.flat().filter(({ status }) => status === 200).length
  t.equal(admitted, handled, 'what was told to be served was served')
  return { connections, admitted }
}

/** The fields of a connection, each once, in the order in which they came; one that comes back is there again. */
const switches = (told: readonly Told[]): readonly string[] =>
  told.map(({ policyField }) => policyField).filter((field, i, fields) => field !== fields[i - 1])

t.test('quotas that change under load lose no request and admit no unit more than the largest', async t => {
  const { connections, admitted } = await underLoad(t, [
    { shared: { quota: 240 } },
    { shared: { quota: 60 } },
    { shared: { quota: 140 } }
  ])
  t.equal(connections.flat().length, CONNECTIONS * REQUESTS)
  t.strictSame(new Set(connections.flat().map(({ status }) => status)), new Set([200, 429]))
  // 80 of the first 90, and most of the next 90: the others met a quota that they had spent.
  t.ok(admitted >= 160 && admitted <= 240, `${admitted} were admitted`)
  for (const told of connections) {
    t.strictSame(
      switches(told),
      [80, 240, 60, 140].map(quota => `"shared";q=${quota};w=60`)
    )
  }
})

t.test('another window or algorithm under load admits at most what both admit', async t => {
  const { connections, admitted } = await underLoad(t, [
    { shared: { quota: 60, window: '2m' } },
    { shared: { quota: 20, algorithm: 'fixed-window' } }
  ])
  t.strictSame(new Set(connections.flat().map(({ status }) => status)), new Set([200, 429]))
  t.equal(admitted, 80 + 60 + 20, 'all of each quota, and not one unit more')
  for (const told of connections) {
    t.strictSame(switches(told), ['"shared";q=80;w=60', '"shared";q=60;w=120', '"shared";q=20;w=120'])
  }
})
