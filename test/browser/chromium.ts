import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import { chromium } from 'playwright-core'
import type { Browser, Page } from 'playwright-core'
import { findChromium } from './program.js'

/** Who ends what was started for it. */
export interface Owner {
  teardown(work: () => unknown): unknown
}

/** What a script in a page is allowed to see of a response. */
export interface Seen {
  readonly status: number
  /** By their names in lower case. */
  readonly fields: Readonly<Record<string, string>>
  readonly body: string
}

/** Starts a browser without a window, which ends with its owner. */
export async function startChromium(owner: Owner): Promise<Browser> {
  const executablePath = findChromium()
  if (executablePath === undefined) throw new Error('there is no Chromium on the PATH')
  // Its sandbox does not start for root. The pages are the tests' own.
  const browser = await chromium.launch({
    executablePath,
    chromiumSandbox: false,
    args: ['--disable-background-networking'],
    timeout: 60_000
  })
  owner.teardown(() => browser.close())
  return browser
}

/** Lets an app listen on a port of its own, and gives its origin. */
export async function listen(app: FastifyInstance): Promise<string> {
  await app.listen({ port: 0, host: '127.0.0.1' })
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
}

/** Opens a page with nothing on it but this in its head, on an origin of its own that serves these routes besides. */
export async function openPage(
  owner: Owner,
  browser: Browser,
  head: string = '',
  routes: (app: FastifyInstance) => unknown = () => {}
): Promise<Page> {
  const app = Fastify()
  owner.teardown(() => app.close())
  const icon = '<link rel="icon" href="data:," />'
  app.get('/', async (_request, reply) =>
    reply.type('text/html').send(`<!doctype html><title>A page</title>${icon}${head}`)
  )
  await routes(app)
  const page = await browser.newPage()
  owner.teardown(() => page.close())
  await page.goto(await listen(app))
  return page
}

/** Lets a script in a page fetch an address; rejects as its `fetch` does. */
export function fetchFrom(page: Page, url: string, init: RequestInit = {}): Promise<Seen> {
  return page.evaluate(
    async ([url, init]) => {
      const response = await fetch(url, init)
      return {
        status: response.status,
        fields: Object.fromEntries(response.headers),
        body: await response.text()
      }
    },
    [url, init] as const
  )
}
