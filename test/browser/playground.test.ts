import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { Locator, Page, Response } from 'playwright-core'
import { build } from '../../examples/first-limits/app.js'
import { playground } from '../../examples/first-limits/playground.js'
import { mostInAnyWindow } from '../../src/simulate/measure.js'
import { listen, startChromium } from './chromium.js'
import { noChromium } from './program.js'

t.setTimeout(120_000)

/** Where people look at how it looks. */
const PICTURES = new URL('../../../.tap/pictures/', import.meta.url)

const QUOTA = 10

/** What the page says of an attack. */
interface Shown {
  readonly verdict: string
  readonly sent: number
  readonly admitted: number
  readonly refused: number
  readonly most: number
  /** Time, status, `RateLimit` and `Retry-After` of each answer. */
  readonly answers: readonly (readonly string[])[]
}

/** Elements with text, and what is behind them. */
const TEXTS = [
  ['h1', 'body'],
  ['header p', 'body'],
  ['#about', 'form'],
  ['button', 'button'],
  ['#verdict', 'section'],
  ['#most', 'section'],
  ['dt', 'section'],
  ['th', 'section'],
  ['#answers .served td', 'section'],
  ['summary', 'section']
] as const

t.test('the playground', { skip: noChromium }, async t => {
  const app = await build()
  await app.register(playground)
  t.teardown(() => app.close())
  const page = await (await startChromium(t)).newPage()
  const faults: Error[] = []
  page.on('pageerror', fault => faults.push(fault))
  await page.goto(await listen(app))

  const algorithm = page.getByRole('combobox', { name: 'Algorithm' })
  const requests = page.getByRole('spinbutton', { name: 'Requests' })
  const edgeBurst = page.getByRole('radio', { name: 'Edge burst' })
  const start = page.getByRole('button', { name: 'Start the attack' })

  t.test(
    'shows, by keyboard alone, that a fixed window admits nearly twice its quota at an edge',
    async t => {
      await tabTo(algorithm)
      await page.keyboard.type('fixed')
      t.equal(await algorithm.inputValue(), 'fixed-window')
      await tabTo(requests)
      await page.keyboard.press('Control+A')
      await page.keyboard.type(String(QUOTA))
      await tabTo(edgeBurst)
      await page.keyboard.press('ArrowDown')
      t.equal(await page.getByRole('radio', { name: 'Drained' }).isChecked(), true)
      await page.keyboard.press('ArrowUp')
      await tabTo(start)

      // A machine that is busy at the wrong moment misses the edge.
      let shown = await attack(page, () => page.keyboard.press('Enter'))
      for (let tries = 1; tries < 3 && shown.most < 1.8 * QUOTA; tries++) {
        shown = await attack(page, () => page.keyboard.press('Enter'))
      }
      const { most, verdict } = shown
      t.ok(most >= 1.8 * QUOTA && most < 2 * QUOTA, `${most}, for one opened the window`)
      t.equal(
        verdict,
        `Broken: ${most} admitted within 2 s, ${(most / QUOTA).toFixed(2)} × the quota of ${QUOTA}.`
      )
      t.equal(await page.locator('svg text.worst').textContent(), `${most} within 2 s`)
    }
  )

  t.test('can be read on a small screen and on a large one, in the light and in the dark', async t => {
    for (const width of [390, 1280]) {
      for (const colorScheme of ['light', 'dark'] as const) {
        const path = fileURLToPath(new URL(`playground-${width}-${colorScheme}.png`, PICTURES))
        await page.setViewportSize({ width, height: 900 })
        await page.emulateMedia({ colorScheme })
        await page.screenshot({ path, fullPage: true })
        t.comment(path)
        t.equal(await page.evaluate('document.documentElement.scrollWidth'), width, 'nothing sticks out')
        for (const [text, ground] of TEXTS)
          t.ok((await contrast(page, text, ground)) >= 4.5, `${path}: ${text}`)
      }
    }
  })

  t.test('shows that a sliding window admits no more than its quota', async t => {
    await algorithm.selectOption({ label: 'sliding-window' })
    await page.getByRole('spinbutton', { name: 'in seconds' }).fill('1')
    const responses: Response[] = []
    page.on('response', response => responses.push(response))
    const shown = await attack(page, () => start.click())
    t.equal(shown.most, QUOTA)
    t.equal(shown.verdict, 'Kept: no more than 10 admitted in any 1 s. The quota is 10.')
    t.equal(await page.locator('svg text.worst').count(), 0)
    const results = page.getByRole('region', { name: 'Attacks so far' }).locator('tbody tr')
    t.match(await results.first().locator('td').allTextContents(), [
      'sliding-window',
      'Edge burst',
      '10 in 1 s'
    ])

    // All this is what the server has answered.
    const answers = responses
      .filter(response => /\/trials\/\d+$/.test(response.url()))
      .map(response => ({ status: response.status(), headers: response.headers() }))
    const admitted = answers
      .filter(({ status }) => status === 200)
      .map(({ headers }) => ({ at: Number(headers['x-decided-at']), units: 1 }))
    const { sent, refused, most } = shown
    t.strictSame(
      [sent, shown.admitted, refused, most],
      [answers.length, admitted.length, answers.length - admitted.length, mostInAnyWindow(admitted, 1000)]
    )
    t.strictSame(
      shown.answers.map(([, ...told]) => told.join(' ')).toSorted(),
      answers
        .map(({ status, headers }) => [status, headers['ratelimit'], headers['retry-after']].join(' '))
        .toSorted()
    )
    t.equal(await page.locator('#policy').textContent(), answers[0]?.headers['ratelimit-policy'])
    await page.getByText('The body of a refusal').click()
    t.match(await page.locator('#problem').textContent(), /"violated-policies": \[\s+"playground"/)
  })

  t.test('leaves it to the plugin to say what is wrong with a quota', async t => {
    const mistake = page.getByRole('alert')
    for (const [written, said] of [
      ['1.5', 'policy "playground": quota must be an integer from 0 to 999999999999999'],
      ['', 'policy "playground": quota is required'],
      ['101', 'the playground takes a quota of 1 to 100 and a window of at most 10 s']
    ] as const) {
      await requests.fill(written)
      await start.click()
      await mistake.filter({ hasText: said }).waitFor()
    }
    await requests.fill(String(QUOTA))
    t.equal(await mistake.textContent(), '')
  })

  t.test('stops when it is told to', async t => {
    await page.getByRole('radio', { name: 'Drip' }).check()
    await start.click()
    await page.getByRole('button', { name: 'Stop the attack' }).click()
    await page.getByRole('status').filter({ hasText: 'Stopped.' }).waitFor()
    t.equal(await start.isVisible(), true)
  })

  t.test('says so when the server has gone', async t => {
    await app.close()
    await start.click()
    await page.getByRole('alert').filter({ hasText: 'The server does not answer.' }).waitFor()
    t.strictSame(faults, [])
  })
})

/** Presses Tab until an element has the focus. */
async function tabTo(element: Locator): Promise<void> {
  const page = element.page()
  for (let presses = 0; presses < 20; presses++) {
    await page.keyboard.press('Tab')
    if ((await element.and(page.locator(':focus')).count()) === 1) return
  }
  throw new Error('the Tab key does not lead there')
}

/** Starts an attack, and waits for what comes of it. */
async function attack(page: Page, begin: () => Promise<unknown>): Promise<Shown> {
  const results = page.locator('#results tr')
  const before = await results.count()
  await begin()
  await results.nth(before).waitFor({ timeout: 60_000 })
  const number = async (id: string): Promise<number> => Number(await page.locator(`#${id}`).textContent())
  const rows = await page.locator('#answers tr').all()
  return {
    verdict: (await page.getByRole('status').textContent()) ?? '',
    sent: await number('sent'),
    admitted: await number('admitted'),
    refused: await number('refused'),
    most: await number('most'),
    answers: await Promise.all(rows.map(row => row.locator('td').allTextContents()))
  }
}

/** How much the color of an element stands out from the background of another (WCAG 2.2, contrast ratio). */
async function contrast(page: Page, text: string, ground: string): Promise<number> {
  const luminances = await Promise.all([
    luminance(page, text, 'color'),
    luminance(page, ground, 'backgroundColor')
  ])
  const [dark = 0, light = 0] = luminances.toSorted((a, b) => a - b)
  return (light + 0.05) / (dark + 0.05)
}

async function luminance(page: Page, selector: string, property: string): Promise<number> {
  const color = await page.evaluate<string>(
    `getComputedStyle(document.querySelector('${selector}')).${property}`
  )
  const [red = 0, green = 0, blue = 0] = (color.match(/[\d.]+/g) ?? []).map(channel =>
    linear(Number(channel) / 255)
  )
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

const linear = (channel: number): number =>
  channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4
