import type { FastifyInstance, FastifyRequest } from 'fastify'
import t from 'tap'
import type { QuotaOptions } from '../../src/index.js'
import { left, leftOf, listed, stores, violated } from './kit.js'

/** Requests and tokens per minute of an API key, as gateways to language models have them. */
const options: QuotaOptions = {
  identify: { 'api-key': ({ headers }) => headers['x-api-key'] as string },
  policies: {
    rpm: { quota: 60, window: '1m', partition: 'api-key' },
    tpm: {
      quota: 100_000,
      window: '1m',
      unit: 'tokens',
      partition: 'api-key',
      cost: (request: FastifyRequest) => Number(Object(request.query).tokens)
    }
  }
}

const asking = (tokens: number): object => ({ url: `/?tokens=${tokens}`, headers: { 'x-api-key': 'k1' } })

const leftOfKey = (app: FastifyInstance): Promise<object> => leftOf(app, ['rpm', 'tpm'], { 'api-key': 'k1' })

for (const [store, start] of Object.entries(stores)) {
  t.test(`with ${store} a request is refused by tokens alone, and costs none then`, async t => {
    const { app, statuses } = await start(t, options)
    t.strictSame(await statuses(asking(30_000), asking(30_000), asking(30_000)), [200, 200, 200])
    const refused = await app.inject(asking(30_000))
    t.equal(refused.statusCode, 429)
    t.strictSame(violated(refused), ['tpm'])
    t.strictSame(left(refused), { tpm: 10_000 })
    t.strictSame(listed(refused), ['rpm', 'tpm'])
    t.strictSame(await leftOfKey(app), { rpm: 57, tpm: 10_000 }, 'no request was charged for it')
    const fifth = await app.inject(asking(5000))
    t.equal(fifth.statusCode, 200)
    t.strictSame(left(fifth), { tpm: 5000, rpm: 56 })
  })

  t.test(`with ${store} requests are refused by their number alone, and cost no tokens then`, async t => {
    const { app, clock } = await start(t, options)
    const codes: number[] = []
    for (let i = 0; i < 70; i++) {
      const response = await app.inject(asking(10))
      codes.push(response.statusCode)
      if (response.statusCode === 429) {
        t.strictSame(violated(response), ['rpm'])
        t.strictSame(left(response), { rpm: 0 })
      }
      clock.pass(14)
    }
    t.strictSame(codes, [...Array<number>(60).fill(200), ...Array<number>(10).fill(429)])
    t.strictSame(await leftOfKey(app), { rpm: 0, tpm: 100_000 - 600 })
  })

  t.test(`with ${store} tokens that were reserved are settled to what the answer took`, async t => {
    const { app, statuses } = await start(t, options)
    app.get('/chat', { config: { quota: { policies: ['rpm', 'tpm'] } } }, async ({ quota, query }) => {
      await quota.settle('tpm', Number(Object(query).used))
      return 'answer'
    })
    const chat = (tokens: number, used: number): object => ({
      url: `/chat?tokens=${tokens}&used=${used}`,
      headers: { 'x-api-key': 'k1' }
    })
    t.strictSame(left(await app.inject(chat(90_000, 20_000))), { tpm: 80_000, rpm: 59 })
    t.strictSame(left(await app.inject(chat(10_000, 95_000))), { tpm: 0, rpm: 58 }, '15 000 are a debt')
    t.strictSame(await statuses(asking(1), asking(0)), [429, 200])
  })
}
