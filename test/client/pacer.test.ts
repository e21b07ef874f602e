import t from 'tap'
import type { PacedOptions } from '../../src/client/index.js'
import { URL_OF_ALL, oneByOne, told, world } from './kit.js'

const wrong: readonly (readonly [options: PacedOptions, message: string])[] = [
  [
    { cost: () => 900 as never },
    'cost must return an object of integers of 0 or more, such as { "tokens": 900 }, got 900'
  ],
  [
    { cost: () => null as never },
    'cost must return an object of integers of 0 or more, such as { "tokens": 900 }, got null'
  ],
  [
    { cost: () => ({ tokens: 1.5 }) },
    'cost must return an object of integers of 0 or more, such as { "tokens": 900 }, got {"tokens":1.5}'
  ],
  [
    { cost: () => ({ tokens: -1 }) },
    'cost must return an object of integers of 0 or more, such as { "tokens": 900 }, got {"tokens":-1}'
  ],
  [{ priority: () => NaN }, 'priority must return a number, got NaN'],
  [{ priority: () => 'high' as never }, 'priority must return a number, got "high"'],
  [{ route: () => undefined as never }, 'route must return text, got undefined']
]

t.test('a function that returns what it must not fails the request', async t => {
  for (const [options, message] of wrong) {
    const { api, calls } = world([{}], options)
    await t.rejects(api(URL_OF_ALL), { name: 'QuotaOptionError', code: 'QUOTA_OPTION', message })
    t.equal(calls.length, 0)
  }
})

t.test('a function that throws fails the request', async t => {
  const cost = (): never => {
    throw new Error('no idea')
  }
  await t.rejects(world([{}], { cost }).api(URL_OF_ALL), { message: 'no idea' })
})

t.test('the functions see the request', async t => {
  const seen: unknown[] = []
  const { time, api } = world([{}], {
    cost: ({ url, method, headers, body }) => {
      seen.push([url.href, method, headers.get('x-a'), body])
      return {}
    }
  })
  const send = async (): Promise<void> => {
    await api('http://api.test/a', { method: 'post', headers: { 'x-a': '1' }, body: 'abc' })
    await api(new Request('http://api.test/b', { headers: { 'x-a': '2' } }))
  }
  await time.run(send())
  t.strictSame(seen, [
    ['http://api.test/a', 'POST', '1', 'abc'],
    ['http://api.test/b', 'GET', '2', undefined]
  ])
})

t.test('bytes of bodies are counted unless a cost is said', async t => {
  const bytes = { 'ratelimit-policy': '"up";q=100;qu="content-bytes";w=10', ratelimit: '"up";r=40;t=10' }
  const sentAt = async (body: string, options?: PacedOptions): Promise<number | undefined> => {
    const one = world([{ fields: bytes }], options)
    const send = async (): Promise<void> => {
      await one.api(URL_OF_ALL, { method: 'POST' })
      await one.api(URL_OF_ALL, { method: 'POST', body })
    }
    await one.time.run(send())
    return one.seconds()[1]
  }
  t.equal(await sentAt('x'.repeat(40)), 0)
  t.equal(await sentAt('x'.repeat(41)), 10)
  t.equal(await sentAt('x'.repeat(41), { cost: () => ({ 'content-bytes': 5 }) }), 0)
})

t.test('a thousand servers are remembered, and none is forgotten that is busy', async t => {
  const one = world(({ path }) => (path === '/slow' ? { ...told(0, 10), after: 1000 } : told(0, 60)))
  const busy = one.api('http://busy.test/slow')
  await one.time.pass(0)
  const crowd = async (): Promise<void> => {
    for (let i = 0; i < 1000; i++) await one.api(`http://host${i}.test/`)
  }
  await one.time.run(crowd())
  await one.time.run(busy)
  await oneByOne(one, 1, 'http://busy.test/')
  t.equal(one.time.passed, 11_000, 'the busy one is known')
  await oneByOne(one, 1, 'http://host0.test/')
  t.equal(one.time.passed, 11_000, 'the oldest idle one is not')
})

t.test('as many servers as are busy are remembered', async t => {
  const one = world(() => told(0, 10))
  const hosts = Array.from({ length: 1002 }, (_, index) => `http://host${index}.test/`)
  const crowd = (): Promise<unknown> => one.time.run(Promise.all(hosts.map(host => one.api(host))))
  await crowd()
  t.equal(one.time.passed, 0)
  await crowd()
  t.ok(one.calls.slice(1002).every(({ at }) => at === 10_000))
})
