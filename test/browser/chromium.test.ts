import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import Fastify from 'fastify'
import t from 'tap'
import { fetchFrom, listen, openPage, startChromium } from './chromium.js'
import { planInstall } from './install.js'
import { excuse, noChromium } from './program.js'

t.setTimeout(120_000)

t.test(
  'a page is opened, may fetch from its own origin, and ends with its owner',
  { skip: noChromium },
  async t => {
    const endings: (() => unknown)[] = []
    const owner = { teardown: (work: () => unknown) => endings.push(work) }
    const browser = await startChromium(owner)
    const page = await openPage(owner, browser, '<meta name="color" content="green" />', app =>
      app.get('/data', async (_request, reply) => reply.code(418).header('x-answer', '42').send('tea'))
    )
    t.equal(await page.locator('meta[name=color]').getAttribute('content'), 'green')
    const own = new URL('/data', page.url()).href
    t.match(await fetchFrom(page, own), { status: 418, fields: { 'x-answer': '42' }, body: 'tea' })
    for (const end of endings.toReversed()) await end()
    t.equal(browser.isConnected(), false)
  }
)

t.test('what another origin does not share is not seen', { skip: noChromium }, async t => {
  const app = Fastify()
  t.teardown(() => app.close())
  app.get('/', async () => 'mine')
  const page = await openPage(t, await startChromium(t))
  await t.rejects(fetchFrom(page, await listen(app)), /TypeError: Failed to fetch/)
})

t.test('tests are skipped where there is no Chromium, but not in CI', async t => {
  t.equal(excuse('/usr/bin/chromium', undefined), false)
  t.equal(excuse('/usr/bin/chromium', 'true'), false)
  t.equal(excuse(undefined, 'true'), false)
  t.match(excuse(undefined, undefined), /Chromium/)
  t.match(excuse(undefined, ''), /Chromium/)
})

t.test('what has to be installed is Chromium where there is none', async t => {
  const machine = { isRoot: true, hasApt: true }
  t.equal(planInstall('/usr/bin/chromium', machine), 'nothing')
  t.strictSame(planInstall(undefined, machine), { packages: ['chromium'] })
})

t.test(
  'where it cannot be installed, one sentence says what to do, which is an error in CI alone',
  async t => {
    const program = fileURLToPath(new URL('install.js', import.meta.url))
    for (const [ci, expected] of [
      ['', 0],
      ['true', 1]
    ] as const) {
      const env = { ...process.env, PATH: '', CI: ci, NODE_OPTIONS: '', NODE_V8_COVERAGE: '' }
      const { status, stderr } = spawnSync(process.execPath, [program], { env, encoding: 'utf8' })
      t.equal(status, expected)
      t.match(stderr, /^The tests in a browser need Chromium .* `apt-get install chromium`\.\n$/)
    }
  }
)
