import { Readable } from 'node:stream'
import t from 'tap'
import { QuotaWaitError } from '../../src/client/index.js'
import { URL_OF_ALL, isSettled, oneByOne, refused, told, within, world } from './kit.js'

const again = (seconds: number): Readonly<Record<string, string>> => ({ 'retry-after': String(seconds) })

t.test('a refused request is sent again when its wait is over, and no later than jitter allows', async t => {
  const one = world([refused(again(8)), {}])
  t.strictSame(await oneByOne(one, 1), [200])
  within(t, one.calls[1]?.at, 8000, 10_000, 'the second try')
})

t.test('an HTTP-date is obeyed by the clock of the server', async t => {
  const fields = { 'retry-after': 'Mon, 30 Nov 2026 09:00:08 GMT', date: 'Mon, 30 Nov 2026 09:00:00 GMT' }
  const one = world([refused(fields), {}], { jitter: 0 })
  await oneByOne(one, 1)
  t.strictSame(one.seconds(), [0, 8])
})

t.test('without a wait it backs off by the kind of what ran out', async t => {
  const until = async (
    violated: readonly string[] | undefined,
    fields: Readonly<Record<string, string>>
  ): Promise<readonly number[]> => {
    const refusal = refused(fields, violated)
    const one = world([refusal, refusal, refusal, refusal, {}], { jitter: 0 })
    await oneByOne(one, 1)
    return one.seconds()
  }
  const policy = (unit: string): Readonly<Record<string, string>> => ({
    'ratelimit-policy': `"p";q=10;qu="${unit}";w=60`
  })
  t.strictSame(await until(undefined, {}), [0, 2, 6, 14, 29])
  t.strictSame(await until(['p'], policy('requests')), [0, 1, 3, 7, 15])
  t.strictSame(await until(['p'], policy('tokens')), [0, 3, 9, 21, 45])
  t.strictSame(await until(['p'], policy('mails')), [0, 2, 6, 14, 29])
})

t.test('malformed fields are ignored', async t => {
  const one = world([refused({ ratelimit: 'p;r=0;t=60', 'retry-after': 'soon' }), {}], { jitter: 0 })
  await oneByOne(one, 1)
  t.strictSame(one.seconds(), [0, 2])
})

t.test('a Retry-After of 0 is no invitation', async t => {
  const one = world([refused(again(0)), {}], { jitter: 0 })
  await oneByOne(one, 1)
  t.strictSame(one.seconds(), [0, 2])
})

t.test('a server that refuses again after the wait it asked for is given longer', async t => {
  const one = world([refused(again(1)), refused(again(1)), refused(again(1)), refused(again(1)), {}], {
    jitter: 0
  })
  await oneByOne(one, 1)
  t.strictSame(one.seconds(), [0, 1, 3, 7, 15])
})

t.test('503 is a refusal too, and 500 is not', async t => {
  const busy = world([refused(again(3), [], 503), {}], { jitter: 0 })
  t.strictSame(await oneByOne(busy, 1), [200])
  t.strictSame(busy.seconds(), [0, 3])
  const broken = world([{ status: 500, fields: again(3) }])
  t.strictSame(await oneByOne(broken, 1), [500])
})

t.test('a request is sent again as often as retries say', async t => {
  const one = world([refused(again(1))], { retries: 2 })
  t.strictSame(await oneByOne(one, 1), [429])
  t.equal(one.calls.length, 3)
  t.strictSame(
    one.refusals.map(({ attempt, retried }) => [attempt, retried]),
    [
      [1, true],
      [2, true],
      [3, false]
    ]
  )
})

t.test('only idempotent methods are sent again, unless others are allowed', async t => {
  const tries = async (method: string, retryMethods?: readonly string[]): Promise<number> => {
    const { time, api, calls } = world([refused(again(1)), {}], { retryMethods })
    await time.run(api(URL_OF_ALL, { method }))
    return calls.length
  }
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'get'])
    t.equal(await tries(method), 2, method)
  for (const method of ['POST', 'PATCH', 'REPORT']) t.equal(await tries(method), 1, method)
  t.equal(await tries('POST', ['POST']), 2)
  t.equal(await tries('GET', ['POST']), 1)
})

t.test('a refused request that is not sent again holds back those that come after it', async t => {
  const { time, api, calls } = world([refused(again(4)), {}], { jitter: 0 })
  const send = async (): Promise<readonly number[]> => {
    const first = await api(URL_OF_ALL, { method: 'POST', body: 'a' })
    const second = await api(URL_OF_ALL, { method: 'POST', body: 'b' })
    return [first.status, second.status]
  }
  t.strictSame(await time.run(send()), [429, 200])
  t.equal(calls[1]?.at, 4000)
})

t.test('a body that is used up by being sent is not sent again', async t => {
  const stream = (): ReadableStream => new ReadableStream({ start: controller => controller.close() })
  const bodies: Readonly<Record<string, readonly [body: () => unknown, tries: number]>> = {
    text: [() => 'abc', 2],
    bytes: [() => new Uint8Array(3), 2],
    parameters: [() => new URLSearchParams('a=b'), 2],
    'a form': [() => new FormData(), 2],
    'a stream': [stream, 1],
    'an iterator': [() => Readable.from(['abc']), 1]
  }
  for (const [name, [body, tries]] of Object.entries(bodies)) {
    const { time, api, calls } = world([refused(again(1)), {}])
    const sent = body()
    await time.run(api(URL_OF_ALL, { method: 'PUT', body: sent as string, duplex: 'half' }))
    t.equal(calls.length, tries, name)
    t.ok(calls.every(call => call.body === sent))
  }
})

t.test('a Request with a body is not sent again, and one without is', async t => {
  const tries = async (request: Request): Promise<number> => {
    const { time, api, calls } = world([refused(again(1)), {}])
    await time.run(api(request))
    return calls.length
  }
  t.equal(await tries(new Request(URL_OF_ALL)), 2)
  t.equal(await tries(new Request(URL_OF_ALL, { method: 'PUT' })), 2)
  t.equal(await tries(new Request(URL_OF_ALL, { method: 'PUT', body: 'abc' })), 1)
  const hidden = (method: string, body?: string): Request =>
    Object.defineProperty(new Request(URL_OF_ALL, { method, body: body ?? null }), 'body', {
      value: undefined
    })
  t.equal(await tries(hidden('GET')), 2, 'where a browser does not show its body')
  t.equal(await tries(hidden('PUT', 'abc')), 1)
})

t.test('a server that asks not to be asked again is not', async t => {
  const one = world([refused({ ...again(1), 'x-should-retry': 'false' }), {}])
  t.strictSame(await oneByOne(one, 1), [429])
  t.match(one.refusals, [{ retried: false }])
})

t.test(
  'a request that costs more than the whole quota is not sent again, and holds back nothing',
  async t => {
    const refusal = refused(
      { 'ratelimit-policy': '"p";q=1000;qu="tokens";w=60', ratelimit: '"p";r=800;t=60' },
      ['p']
    )
    const one = world([refusal, {}], {
      cost: ({ url }) => ({ tokens: Number(url.pathname.slice(1)) }),
      route: () => 'all'
    })
    t.strictSame(await oneByOne(one, 1, 'http://api.test/5000'), [429])
    t.match(one.refusals, [{ retried: false, policies: ['p'], until: new Date(one.time.now()) }])
    t.strictSame(await oneByOne(one, 1, 'http://api.test/900'), [200])
    t.equal(one.time.passed, 0)
  }
)

t.test('a request that was aborted is not sent again', async t => {
  const { time, api, calls } = world([refused(again(10)), {}])
  const controller = new AbortController()
  const response = api(URL_OF_ALL, { signal: controller.signal })
  await time.pass(5000)
  controller.abort(new Error('never mind'))
  await t.rejects(time.run(response), { message: 'never mind' })
  await time.pass(60_000)
  t.equal(calls.length, 1)
})

t.test('a request that is aborted while it waits leaves the queue', async t => {
  const { time, api, calls } = world([told(0, 10), told(9, 10)])
  await time.run(api(URL_OF_ALL))
  const controller = new AbortController()
  const second = api(new Request(URL_OF_ALL, { signal: controller.signal }))
  const third = api(URL_OF_ALL)
  await time.pass(5000)
  t.equal(await isSettled(time, second), false)
  controller.abort()
  await t.rejects(second, { name: 'AbortError' })
  t.equal((await time.run(third)).status, 200)
  t.equal(calls.length, 2)
})

t.test('a request whose signal is aborted already is not sent', async t => {
  const { api, calls } = world([{}])
  await t.rejects(api(URL_OF_ALL, { signal: AbortSignal.abort(new Error('too late')) }), {
    message: 'too late'
  })
  t.equal(calls.length, 0)
})

t.test('a signal in the second parameter is the one that counts, even if it is none', async t => {
  const { time, api } = world([told(0, 10), told(9, 10)])
  await time.run(api(URL_OF_ALL))
  const controller = new AbortController()
  const response = api(new Request(URL_OF_ALL, { signal: controller.signal }), { signal: null })
  await time.pass(1000)
  controller.abort()
  t.equal((await time.run(response)).status, 200)
})

t.test('a request that is aborted on its way fails as fetch fails, and the next may go', async t => {
  const { time, api } = world([{ after: 1000 }])
  const controller = new AbortController()
  const response = api(URL_OF_ALL, { signal: controller.signal })
  await time.pass(100)
  controller.abort(new Error('never mind'))
  await t.rejects(time.run(response), { message: 'never mind' })
  t.equal((await time.run(api(URL_OF_ALL))).status, 200)
})

t.test(
  'a wait after a refusal that is longer than maxWait is an error with the time to come back',
  async t => {
    const { time, api } = world([refused(again(3600), ['daily'])], { maxWait: '10m', jitter: 0 })
    const error = await time.run(api(URL_OF_ALL)).then(
      () => undefined,
      (error: unknown) => error
    )
    t.ok(error instanceof QuotaWaitError)
    t.match(error, { code: 'QUOTA_WAIT', policies: ['daily'], retryAt: new Date(time.now() + 3_600_000) })
    t.equal(time.passed, 0)
  }
)

t.test('of each refusal is told what refused, until when, and whether it is tried again', async t => {
  const one = world([refused(again(2), ['a', 'b']), {}], { jitter: 0 })
  await oneByOne(one, 1, 'http://api.test/items')
  const [event] = one.refusals
  t.match(event, { status: 429, policies: ['a', 'b'], attempt: 1, retried: true })
  t.equal(event?.request.url.pathname, '/items')
  t.equal(event?.request.method, 'GET')
  t.equal(event?.until.getTime(), one.time.now())
})
