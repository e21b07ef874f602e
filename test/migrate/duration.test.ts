import t from 'tap'
import { inWords, millisecondsOf } from '../../src/migrate/duration.js'
import { CommonTime, opened } from './kit.js'

const WRITTEN = [
  ['250', 250],
  ['5s', 5000],
  ['2 secs', 2000],
  ['1 second', 1000],
  ['500 msecs', 500],
  ['1 millisecond', 1],
  ['1m', 60_000],
  ['1 Minute', 60_000],
  ['3 mins', 180_000],
  ['1.5h', 5_400_000],
  ['.5 hours', 1_800_000],
  ['2hrs', 7_200_000],
  ['1 day', 86_400_000],
  ['2 wks', 1_209_600_000],
  ['1 week', 604_800_000],
  ['1y', 31_557_600_000],
  ['1 yr', 31_557_600_000]
] as const

t.test('a duration in words is as many milliseconds as it was', async t => {
  const time = new CommonTime(t)
  for (const [text, milliseconds] of WRITTEN) {
    t.equal(millisecondsOf(text), milliseconds, text)
    for (const limiter of ['theirs', 'ours'] as const) {
      const app = await opened(t, limiter, time, { options: { max: 1, timeWindow: text } })
      const { headers } = await app.inject('/')
      t.equal(Number(headers['x-ratelimit-reset']), Math.ceil(milliseconds / 1000), `${limiter}: ${text}`)
    }
  }
})

t.test('what is no duration is none, nor is a part of a millisecond', async t => {
  for (const text of ['', 'soon', '1 fortnight', ' 1m', '1m 2s', '-1m', '1.5ms', '1e3', 'minute', '.']) {
    t.equal(millisecondsOf(text), undefined, text)
  }
})

t.test('seconds are told in the largest unit they fill', async t => {
  const told = [1, 2, 59, 60, 89, 90, 3599, 3600, 86_399, 86_400, 2_592_000, 31_557_600, 63_115_200]
  t.strictSame(told.map(inWords), [
    '1 second',
    '2 seconds',
    '59 seconds',
    '1 minute',
    '1 minute',
    '2 minutes',
    '60 minutes',
    '1 hour',
    '24 hours',
    '1 day',
    '30 days',
    '1 year',
    '2 years'
  ])
})

t.test('they are told as they were', async t => {
  const time = new CommonTime(t)
  for (const seconds of [1, 59, 60, 89, 90, 3600, 5400, 86_400, 2_592_000, 31_557_600]) {
    const told: string[] = []
    for (const limiter of ['theirs', 'ours'] as const) {
      const app = await opened(t, limiter, time, {
        options: {
          max: 0,
          timeWindow: seconds * 1000,
          errorResponseBuilder: (_request, { after }) => ({ statusCode: 429, after })
        }
      })
      const { after } = (await app.inject('/')).json<{ after: string }>()
      told.push(after)
    }
    t.strictSame(told, [inWords(seconds), inWords(seconds)])
  }
})
