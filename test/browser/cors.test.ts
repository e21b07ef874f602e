import cors from '@fastify/cors'
import type { FastifyCorsOptions } from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import type { Page } from 'playwright-core'
import { exposedHeaders, firstOf } from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { members, start } from '../fixtures/wire.js'
import { fetchFrom, listen, openPage, startChromium } from './chromium.js'
import type { Seen } from './chromium.js'
import { noChromium } from './program.js'

t.setTimeout(120_000)

type Order = 'cors before the plugin' | 'cors after the plugin'

const ORDERS: readonly Order[] = ['cors before the plugin', 'cors after the plugin']

interface Api {
  readonly url: string
  /** The preflights that have come. */
  readonly preflights: () => number
}

/** An API for the pages of one origin. Its clock stands still. */
async function serve(
  t: Test,
  page: Page,
  order: Order,
  options: QuotaOptions,
  sharing: FastifyCorsOptions = { exposedHeaders }
): Promise<Api> {
  let preflights = 0
  const share = (app: FastifyInstance): unknown =>
    app.register(cors, { origin: new URL(page.url()).origin, maxAge: 0, ...sharing })
  const { app } = await start(t, options, {
    before: async app => {
      app.addHook('onRequest', async ({ method }) => void (preflights += Number(method === 'OPTIONS')))
      if (order === 'cors before the plugin') await share(app)
    },
    routes: async app => {
      if (order === 'cors after the plugin') await share(app)
      app.get('/', async () => 'served')
      app.get('/session', { config: { quota: false } }, async (_request, reply) =>
        reply.header('set-cookie', 'user=ann; SameSite=Strict').send()
      )
    }
  })
  return { url: await listen(app), preflights: () => preflights }
}

/** The fields that have to do with quotas. */
function told({ fields }: Seen): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => /ratelimit|retry/.test(name)))
}

/** Has to be preceded by a preflight: it is no field that pages may send unasked. */
const ASKED_FOR: RequestInit = { headers: { 'x-purpose': 'test' } }

/** Together they are all that the plugin can send. */
const FORMS: readonly Omit<QuotaOptions, 'policies'>[] = [
  { legacy: { style: 'x-ratelimit', reset: 'delta' }, sdkHints: true },
  { legacy: 'draft-6', partitionKey: 'hash' },
  { legacy: 'draft-7', fields: false },
  { legacy: 'llm' }
]

t.test('a page of another origin', { skip: noChromium }, async t => {
  const page = await openPage(t, await startChromium(t))

  for (const order of ORDERS) {
    t.test(`reads the fields of what is served and of a refusal; ${order}`, async t => {
      const { url } = await serve(t, page, order, { policies: { burst: '1/10s', daily: '9/1d' } })
      const served = await fetchFrom(page, url)
      t.match(served, { status: 200, body: 'served' })
      t.strictSame(told(served), {
        'ratelimit-policy': '"burst";q=1;w=10, "daily";q=9;w=86400',
        ratelimit: '"burst";r=0;t=10, "daily";r=8;t=86400'
      })
      const refused = await fetchFrom(page, url)
      t.equal(refused.status, 429)
      t.strictSame(told(refused), {
        'ratelimit-policy': '"burst";q=1;w=10, "daily";q=9;w=86400',
        ratelimit: '"burst";r=0;t=10',
        'retry-after': '10'
      })
    })

    t.test(`reads the problem in the body of a refusal; ${order}`, async t => {
      const { url } = await serve(t, page, order, { policies: { burst: '1/10s' } })
      await fetchFrom(page, url)
      const { fields, body } = await fetchFrom(page, url)
      t.match(fields, { 'content-type': 'application/problem+json; charset=utf-8' })
      t.match(JSON.parse(body), {
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        title: 'Quota Exceeded',
        status: 429,
        'violated-policies': ['burst']
      })
    })

    t.test(`pays nothing for preflights, and has them answered when nothing is left; ${order}`, async t => {
      const { url, preflights } = await serve(t, page, order, { policies: { burst: '3/10s' } })
      const seen: unknown[] = []
      for (let i = 0; i < 6; i++) {
        const { status, fields } = await fetchFrom(page, url, ASKED_FOR)
        seen.push([status, members(fields['ratelimit'])[0]!['r']])
      }
      t.strictSame(seen, [
        [200, 2],
        [200, 1],
        [200, 0],
        [429, 0],
        [429, 0],
        [429, 0]
      ])
      t.equal(preflights(), 6)
    })

    t.test(`has the quota of whoever its credentials say it is; ${order}`, async t => {
      const { url } = await serve(
        t,
        page,
        order,
        {
          identify: { user: ({ headers }) => /(?:^|; )user=(\w+)/.exec(headers.cookie ?? '')?.[1] },
          policies: { personal: { quota: 2, window: 10, partition: firstOf('user', 'ip') } }
        },
        { exposedHeaders, credentials: true }
      )
      const left = async (credentials: 'include' | 'omit'): Promise<readonly unknown[]> => {
        const { status, fields } = await fetchFrom(page, url, { credentials })
        return [status, fields['ratelimit'], fields['retry-after']]
      }
      await fetchFrom(page, `${url}/session`, { credentials: 'include' })
      t.strictSame(await left('include'), [200, '"personal";r=1;t=10', undefined])
      t.strictSame(await left('include'), [200, '"personal";r=0;t=10', undefined])
      t.strictSame(await left('include'), [429, '"personal";r=0;t=10', '10'])
      t.strictSame(await left('omit'), [200, '"personal";r=1;t=10', undefined], 'by address')
    })

    t.test(`sees a refusal before authentication only if cors comes first; ${order}`, async t => {
      const { url } = await serve(t, page, order, {
        policies: { burst: { quota: 1, window: '10s', hook: 'onRequest' } }
      })
      t.equal((await fetchFrom(page, url)).status, 200)
      if (order === 'cors before the plugin') t.equal((await fetchFrom(page, url)).status, 429)
      else await t.rejects(fetchFrom(page, url), /TypeError: Failed to fetch/)
    })
  }

  t.test('reads all older forms of the fields, and no name is exposed in vain', async t => {
    const read = new Set<string>()
    for (const form of FORMS) {
      const policies = { burst: '1/10s', tokens: { quota: 1, window: '10s', unit: 'tokens' } } as const
      const { url } = await serve(t, page, 'cors before the plugin', { ...form, policies })
      const arriving = page.waitForResponse(response => response.status() === 429)
      await fetchFrom(page, url)
      const fields = told(await fetchFrom(page, url))
      const sent = await (await arriving).allHeaders()
      const ours = Object.keys(sent).filter(name => /ratelimit|retry/.test(name))
      t.strictSame(Object.keys(fields).toSorted(), ours.toSorted(), JSON.stringify(form))
      for (const name of ours) {
        t.equal(fields[name], sent[name], name)
        read.add(name)
      }
    }
    t.strictSame([...read].toSorted(), exposedHeaders.map(name => name.toLowerCase()).toSorted())
  })

  t.test('sees none of them unless they are exposed', async t => {
    for (const order of ORDERS) {
      const { url } = await serve(t, page, order, { policies: { burst: '1/10s' } }, {})
      const answers = [await fetchFrom(page, url), await fetchFrom(page, url)]
      t.strictSame(
        answers.map(answer => [answer.status, told(answer)]),
        [
          [200, {}],
          [429, {}]
        ],
        order
      )
    }
  })
})
