import t from 'tap'
import { QuotaQueueError, QuotaWaitError } from '../../src/client/index.js'
import type { PacedOptions } from '../../src/client/index.js'
import { URL_OF_ALL, all, isSettled, told, world } from './kit.js'
import type { World } from './kit.js'

const pathsOf = ({ calls }: World): string => calls.map(({ path }) => path.slice(1)).join(' ')

/** All requests fall under the same policies, whatever their path. */
const together = { route: () => 'all' } as const

/** Sends requests to paths of these names at once. */
async function send(one: World, names: string): Promise<readonly (number | Error)[]> {
  const responses = names.split(' ').map(name =>
    one.api(`http://api.test/${name}`).then(
      ({ status }) => status,
      (error: Error) => error
    )
  )
  return one.time.run(Promise.all(responses))
}

t.test('requests wait before they are refused, and then go in order', async t => {
  const one = world((_call, index) => told(index % 2 === 0 ? 1 : 0, 10), together)
  await send(one, 'a b c d e f')
  t.equal(pathsOf(one), 'a b c d e f')
  t.strictSame(one.seconds(), [0, 0, 10, 10, 20, 20])
})

t.test('requests of a higher priority go first', async t => {
  const priority: PacedOptions['priority'] = ({ url }) => Number(url.pathname[2])
  const one = world(() => told(0, 10), { ...together, priority })
  await send(one, 'a0 b1 c2 d1 e0')
  t.equal(pathsOf(one), 'c2 b1 d1 a0 e0')
})

t.test('a wait that is longer than maxWait is an error at once', async t => {
  const one = world(() => told(0, 3600), { maxWait: '10m' })
  t.strictSame(await all(one, 1), [200])
  const error = await one.time.run(one.api(URL_OF_ALL)).catch((error: unknown) => error)
  t.ok(error instanceof QuotaWaitError)
  t.match(error, { retryAt: new Date(one.time.now() + 3_600_000), policies: ['p'] })
  t.equal(one.time.passed, 0)
  t.equal(one.calls.length, 1)
  await one.time.pass(3_600_000)
  t.strictSame(await all(one, 1), [200], 'and when it is over requests are sent again')
})

t.test('waiting for one’s turn is no such wait', async t => {
  const one = world(() => told(0, 60), { maxWait: '1m' })
  t.strictSame(await all(one, 5), [200, 200, 200, 200, 200])
  t.equal(one.time.passed, 240_000)
})

t.test('a queue that is full takes no more', async t => {
  const one = world(() => told(0, 10), { ...together, queue: 2 })
  const outcomes = await send(one, 'a b c d')
  t.strictSame(outcomes.slice(0, 3), [200, 200, 200])
  t.ok(outcomes[3] instanceof QuotaQueueError)
  t.match(outcomes[3], { code: 'QUOTA_QUEUE', message: /^2 requests to http:\/\/api\.test wait already/ })
})

t.test('a queue for nobody rejects what would have to wait', async t => {
  const one = world(() => told(0, 10), { queue: 0 })
  t.strictSame(await send(one, 'a'), [200])
  t.ok((await send(one, 'a'))[0] instanceof QuotaQueueError)
  await one.time.pass(10_000)
  t.strictSame(await send(one, 'a'), [200])
})

t.test('a request that comes again has its place in a full queue', async t => {
  const one = world(
    ({ path }, index) =>
      index === 1 ? { status: 429, fields: { 'retry-after': '5' } } : path === '/a' ? {} : {},
    { ...together, queue: 1, jitter: 0 }
  )
  await send(one, 'a')
  const first = one.api('http://api.test/b')
  await one.time.pass(1000)
  const second = one.api('http://api.test/c')
  await t.rejects(one.time.run(second), { code: 'QUOTA_QUEUE' })
  t.equal((await one.time.run(first)).status, 200)
})

t.test('no more requests run at once than concurrency says, until their responses are over', async t => {
  let running = 0
  let most = 0
  const one = world([{}], { concurrency: 3 })
  const work = async (): Promise<void> => {
    const response = await one.api(URL_OF_ALL)
    most = Math.max(most, ++running)
    await one.time.sleep(1000)
    running--
    await response.text()
  }
  await one.time.run(Promise.all(Array.from({ length: 10 }, work)))
  t.ok(most > 0)
  t.equal(one.calls.length, 10)
})

t.test('concurrency counts requests on their way', async t => {
  let flying = 0
  let most = 0
  const one = world(() => ({ after: 1000 }), { concurrency: 3 })
  const counted = one.api
  const work = async (): Promise<void> => {
    await counted(URL_OF_ALL)
  }
  const watch = async (): Promise<void> => {
    for (let i = 0; i < 40; i++) {
      flying = one.calls.filter(({ at }) => at > one.time.passed - 1000).length
      most = Math.max(most, flying)
      await one.time.sleep(100)
    }
  }
  await one.time.run(Promise.all([...Array.from({ length: 10 }, work), watch()]))
  t.equal(most, 3)
  t.strictSame(one.seconds(), [0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
})

t.test('places that the server limits are held until the response is over', async t => {
  const fields = { 'ratelimit-policy': '"busy";q=2;qu="concurrent-requests"', ratelimit: '"busy";r=1' }
  const body = (): ReadableStream<Uint8Array> =>
    new ReadableStream({ start: controller => controller.enqueue(new Uint8Array(100_000)) })
  const one = world(() => ({ fields, body: body() }))
  const first = await one.time.run(one.api(URL_OF_ALL))
  await one.time.run(one.api(URL_OF_ALL))
  const third = one.api(URL_OF_ALL)
  t.equal(await isSettled(one.time, third), false)
  await first.body?.cancel()
  t.equal(await isSettled(one.time, third), true)
})

t.test('each server has a queue of its own', async t => {
  const one = world(() => told(0, 10))
  await one.time.run(one.api('http://one.test/'))
  await one.time.run(one.api('http://other.test/'))
  t.equal(one.time.passed, 0)
})

t.test('of a wait is told once: who waits, for what, until when', async t => {
  const one = world(() => told(0, 10))
  await all(one, 3)
  t.equal(one.waits.length, 2)
  t.match(one.waits[0], { policies: ['p'], until: new Date(one.time.now() - 10_000) })
  t.equal(one.waits[0]?.request.url.href, URL_OF_ALL)
})

t.test('requests that are taken out of a queue leave the order of the others', async t => {
  const one = world(() => told(0, 10), together)
  const controllers = new Map(['a', 'b', 'c', 'd'].map(name => [name, new AbortController()]))
  const responses = [...controllers].map(([name, { signal }]) =>
    one.api(`http://api.test/${name}`, { signal }).then(
      () => name,
      () => `no ${name}`
    )
  )
  await one.time.pass(5000)
  controllers.get('c')?.abort()
  t.strictSame(await one.time.run(Promise.all(responses)), ['a', 'b', 'no c', 'd'])
  t.equal(pathsOf(one), 'a b d')
})

t.test('ten thousand requests can wait', async t => {
  const one = world((_call, index) => told((9999 - index) % 1000, 10))
  await all(one, 10_000)
  t.equal(one.time.passed, 90_000)
})
