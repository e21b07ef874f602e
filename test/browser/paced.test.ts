import { readFile } from 'node:fs/promises'
import cors from '@fastify/cors'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import type { Page } from 'playwright-core'
import type * as Client from '../../src/client/index.js'
import { exposedHeaders } from '../../src/index.js'
import type { QuotaOptions } from '../../src/index.js'
import { start } from '../fixtures/wire.js'
import { fetchFrom, listen, openPage, startChromium } from './chromium.js'
import { noChromium } from './program.js'

t.setTimeout(120_000)

/** What a page has after {@link HEAD}. */
type WithClient = typeof globalThis & { readonly client: typeof Client }

/** A page that takes the client as it is published, without a bundler. */
const HEAD = `
  <script type="importmap">
    {
      "imports": {
        "fastify-quota/client": "/src/client/index.js",
        "fastest-levenshtein": "/fastest-levenshtein.js"
      }
    }
  </script>
  <script type="module">
    import * as client from 'fastify-quota/client'
    globalThis.client = client
  </script>`

function modules(app: FastifyInstance): void {
  const script = (url: URL): Promise<string> => readFile(url, 'utf8')
  app.addHook('onRequest', async ({ url }, reply) => {
    if (url.endsWith('.js')) reply.type('text/javascript')
  })
  app.get('/src/*', ({ url }) => script(new URL(`../..${url}`, import.meta.url)))
  app.get('/fastest-levenshtein.js', () =>
    script(new URL('esm/mod.js', import.meta.resolve('fastest-levenshtein')))
  )
}

interface Api {
  readonly url: string
  /** The statuses it has answered with. */
  readonly answered: readonly number[]
}

/** An API for the pages of all origins. */
async function serve(t: Test, options: QuotaOptions, exposed: string[] = exposedHeaders): Promise<Api> {
  const answered: number[] = []
  const { app } = await start(t, options, {
    clock: false,
    before: async app => {
      await app.register(cors, { exposedHeaders: exposed })
      app.addHook('onResponse', async (_request, { statusCode }) => void answered.push(statusCode))
    }
  })
  return { url: await listen(app), answered }
}

interface Paced {
  readonly statuses: readonly number[]
  /** The policies of each wait. */
  readonly waits: readonly (readonly string[])[]
  readonly refusals: readonly unknown[]
}

/** Sends requests all at once from a page, with a client that is new. */
function pacedFrom(page: Page, url: string, requests: number, retries: number): Promise<Paced> {
  return page.evaluate(
    async ([url, requests, retries]) => {
      const { paced } = (globalThis as WithClient).client
      const waits: (readonly string[])[] = []
      const refusals: unknown[] = []
      const api = paced(fetch, {
        retries,
        onWait: ({ policies }) => waits.push(policies),
        onRefused: ({ status, policies, retried }) => refusals.push({ status, policies, retried })
      })
      const statuses = Array.from({ length: requests }, async () => (await api(url)).status)
      return { statuses: await Promise.all(statuses), waits, refusals }
    },
    [url, requests, retries] as const
  )
}

t.test('the paced client in a page of another origin', { skip: noChromium }, async t => {
  const page = await openPage(t, await startChromium(t), HEAD, modules)

  t.test('reads what is left, and waits instead of being refused', async t => {
    const { url, answered } = await serve(t, { policies: { burst: '5/1s' } })
    const { statuses, waits, refusals } = await pacedFrom(page, url, 12, 0)
    t.ok(statuses.every(status => status === 200))
    t.strictSame(refusals, [])
    t.ok(waits.length > 0 && waits.every(([policy, ...others]) => policy === 'burst' && others.length === 0))
    t.strictSame(answered, Array(12).fill(200))
  })

  t.test('comes again when Retry-After is over, and knows from the body who refused it', async t => {
    let now = 0
    const { url, answered } = await serve(t, {
      fields: false,
      policies: { burst: '1/1s' },
      clock: () => now,
      onRefused: () => void (now += 1000)
    })
    await fetchFrom(page, url)
    const { statuses, refusals } = await pacedFrom(page, url, 1, 1)
    t.strictSame(statuses, [200])
    t.strictSame(refusals, [{ status: 429, policies: ['burst'], retried: true }])
    t.strictSame(answered, [200, 429, 200])
  })

  t.test('cannot know when it has to wait unless the fields are exposed', async t => {
    const { url, answered } = await serve(t, { policies: { burst: '5/1s' }, clock: () => 0 }, [])
    const { statuses, waits, refusals } = await pacedFrom(page, url, 6, 0)
    t.strictSame(
      statuses.toSorted((a, b) => a - b),
      [200, 200, 200, 200, 200, 429]
    )
    t.strictSame(waits, [])
    t.strictSame(refusals, [{ status: 429, policies: ['burst'], retried: false }])
    t.equal(answered.length, 6)
  })
})
