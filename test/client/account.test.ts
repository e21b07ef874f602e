import t from 'tap'
import { all, oneByOne, refused, told, world } from './kit.js'
import type { Call, Reply } from './kit.js'

t.test('only the policies that a request falls under hold it back', async t => {
  const replies = ({ path }: Call): Reply =>
    path === '/search'
      ? { fields: { 'ratelimit-policy': '"search";q=1;w=60', ratelimit: '"search";r=0;t=60' } }
      : { fields: { 'ratelimit-policy': '"items";q=10;w=60', ratelimit: '"items";r=9;t=60' } }
  const one = world(replies)
  await oneByOne(one, 1, 'http://api.test/items')
  await oneByOne(one, 1, 'http://api.test/search')
  await oneByOne(one, 1, 'http://api.test/items')
  t.equal(one.time.passed, 0)
  await oneByOne(one, 1, 'http://api.test/search')
  t.equal(one.time.passed, 60_000)
})

t.test('a request of which nothing is known yet keeps to all policies of its server', async t => {
  const one = world(() => told(0, 10))
  await oneByOne(one, 1, 'http://api.test/items/1')
  await oneByOne(one, 1, 'http://api.test/items/2')
  t.strictSame(one.seconds(), [0, 10])
})

t.test('a request that turns out not to fall under a policy is given back to it', async t => {
  const two = '"search";q=2;w=60'
  const replies = ({ path }: Call, index: number): Reply =>
    path === '/search'
      ? { fields: { 'ratelimit-policy': two, ratelimit: `"search";r=${index === 0 ? 1 : 0};t=60` } }
      : { fields: { 'ratelimit-policy': '"items";q=10;w=60', ratelimit: '"items";r=9;t=60' } }
  const one = world(replies)
  await oneByOne(one, 1, 'http://api.test/search')
  await oneByOne(one, 1, 'http://api.test/items')
  await oneByOne(one, 1, 'http://api.test/search')
  t.equal(one.time.passed, 0)
})

t.test('requests that share a route share what is known of it', async t => {
  const one = world(() => told(0, 10), { route: ({ url }) => url.pathname.split('/')[1]! })
  await oneByOne(one, 1, 'http://api.test/items/1')
  await all(one, 2, 'http://api.test/items/2')
  t.strictSame(one.seconds(), [0, 10, 20])
})

t.test('the first request of a route goes alone, and those of other routes go with it', async t => {
  const one = world(() => ({ ...told(9, 10), after: 1000 }))
  await oneByOne(one, 1, 'http://api.test/')
  const paths = ['a', 'a', 'a', 'b', 'b']
  await one.time.run(Promise.all(paths.map(path => one.api(`http://api.test/${path}`))))
  t.strictSame(
    one.calls.slice(1).map(({ at, path }) => `${path} ${at / 1000}`),
    ['/a 1', '/b 1', '/a 2', '/a 2', '/b 2']
  )
})

t.test('a policy that has refused is held back, and no other', async t => {
  const both = { 'ratelimit-policy': '"a";q=10;w=60, "b";q=10;w=60' }
  const replies = (_call: Call, index: number): Reply => {
    if (index === 0) return { fields: { ...both, ratelimit: '"a";r=1;t=60, "b";r=9;t=60' } }
    return index === 1
      ? refused({ ...both, ratelimit: '"a";r=0;t=30', 'retry-after': '30' }, ['a'])
      : { fields: both }
  }
  const one = world(replies, { retries: 0, jitter: 0, route: ({ url }) => url.pathname })
  t.strictSame(await oneByOne(one, 2, 'http://api.test/both'), [200, 429])
  t.match(one.refusals, [{ policies: ['a'] }])
  t.strictSame(await oneByOne(one, 1, 'http://api.test/both'), [200])
  t.equal(one.time.passed, 30_000)
})

t.test(
  'without a body those with nothing left have refused, or with too little, or the closest to its end',
  async t => {
    const refusing = async (
      ratelimit: string | undefined,
      tokens = 1
    ): Promise<readonly string[] | undefined> => {
      const fields = {
        'ratelimit-policy': '"a";q=10;w=60, "b";q=1000;qu="tokens";w=60',
        'retry-after': '1',
        ...(ratelimit === undefined ? {} : { ratelimit })
      }
      const one = world([refused(fields)], { retries: 0, cost: () => ({ tokens }) })
      await oneByOne(one, 1)
      return one.refusals[0]?.policies
    }
    t.strictSame(await refusing('"a";r=0;t=12, "b";r=280;t=40'), ['a'])
    t.strictSame(await refusing('"a";r=3;t=12, "b";r=280;t=40', 500), ['b'])
    t.strictSame(await refusing('"a";r=3;t=12, "b";r=500;t=40'), ['a'])
    t.strictSame(await refusing('"b";r=280;t=40, "a";r=3;t=12'), ['b'])
    t.strictSame(await refusing(undefined), [])
  }
)

t.test('the wait of a refusal without Retry-After is t, unless that is none', async t => {
  const until = async (ratelimit: string): Promise<number | undefined> => {
    const one = world([refused({ ratelimit }), {}], { jitter: 0 })
    await oneByOne(one, 1)
    return one.seconds()[1]
  }
  t.equal(await until('"a";r=0;t=7'), 7)
  t.equal(await until('"a";r=0;t=0'), 1)
  t.equal(await until('"a";r=0'), 1)
})

t.test('in the older forms quotas have no names, so those of the body say nothing of them', async t => {
  const forms: readonly Readonly<Record<string, string>>[] = [
    { ratelimit: 'limit=1, remaining=0, reset=7' },
    { 'ratelimit-limit': '1', 'ratelimit-remaining': '0', 'ratelimit-reset': '7' },
    { 'x-ratelimit-limit': '1', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '7' },
    { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '7s' }
  ]
  for (const fields of forms) {
    const one = world([refused(fields, ['burst']), {}], { jitter: 0 })
    await oneByOne(one, 1)
    t.strictSame(one.seconds(), [0, 7], JSON.stringify(fields))
  }
})

t.test('a policy that only the body names is held back until a request is served', async t => {
  const replies = (_call: Call, index: number): Reply =>
    index === 1 ? refused({ 'retry-after': '5' }, ['hidden', 'hidden']) : {}
  const one = world(replies, { jitter: 0 })
  await oneByOne(one, 1)
  t.strictSame(await all(one, 3), [200, 200, 200])
  t.match(one.refusals, [{ policies: ['hidden'] }])
  t.ok(
    one
      .seconds()
      .slice(4)
      .every(at => at === 5)
  )
})

t.test('a refusal that names nothing holds back its server', async t => {
  const one = world((_call, index) => (index === 1 ? refused({ 'retry-after': '5' }) : {}), { jitter: 0 })
  await oneByOne(one, 1, 'http://api.test/a')
  await oneByOne(one, 1, 'http://api.test/b')
  t.strictSame(one.seconds(), [0, 0, 5])
})

t.test('a refused request is not counted by the policies that passed it', async t => {
  const both = { 'ratelimit-policy': '"a";q=10;w=60, "b";q=10;w=60' }
  const replies = (_call: Call, index: number): Reply => {
    if (index === 0) return { fields: { ...both, ratelimit: '"a";r=1;t=60, "b";r=1;t=60' } }
    if (index === 1) return refused({ ...both, ratelimit: '"a";r=0;t=2', 'retry-after': '2' }, ['a'])
    return { fields: { ...both, ratelimit: '"a";r=5;t=60, "b";r=0;t=60' } }
  }
  const one = world(replies, { jitter: 0 })
  t.strictSame(await oneByOne(one, 2), [200, 200])
  t.equal(one.time.passed, 2000)
})

t.test('a response from a cache was not counted, and opens the way to the server', async t => {
  const one = world((_call, index) =>
    index === 0 ? told(1, 60) : { fields: { age: '5', ratelimit: '"p";r=0;t=60' } }
  )
  t.strictSame(await oneByOne(one, 5), [200, 200, 200, 200, 200])
  t.equal(one.time.passed, 0)
  const cached = world([{ fields: { age: '5' }, after: 1000 }])
  await all(cached, 3)
  t.strictSame(cached.seconds(), [0, 1, 1])
})

t.test('partition keys tell quotas apart that have one name', async t => {
  const replies = ({ path }: Call): Reply => {
    const key = path === '/a' ? ':YQ==:' : ':Yg==:'
    return {
      fields: {
        'ratelimit-policy': '"p";q=10;w=10',
        ratelimit: `"p";r=${path === '/a' ? 0 : 5};t=10;pk=${key}`
      }
    }
  }
  const one = world(replies)
  await oneByOne(one, 1, 'http://api.test/a')
  await one.time.pass(10_000)
  await oneByOne(one, 1, 'http://api.test/b')
  await oneByOne(one, 1, 'http://api.test/a')
  await oneByOne(one, 3, 'http://api.test/b')
  t.equal(one.time.passed, 10_000)
  await oneByOne(one, 1, 'http://api.test/a')
  t.equal(one.time.passed, 20_000)
})

t.test('older fields pace as well', async t => {
  const one = world(() => ({
    fields: { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '30' }
  }))
  await oneByOne(one, 2)
  t.strictSame(one.seconds(), [0, 30])
})

t.test('the fields of LLM APIs pace requests and tokens', async t => {
  const replies = (_call: Call, index: number): Reply => ({
    fields: {
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-requests': String(59 - index),
      'x-ratelimit-reset-requests': '1s',
      'x-ratelimit-limit-tokens': '1000',
      'x-ratelimit-remaining-tokens': String(1000 - 400 * (index + 1)),
      'x-ratelimit-reset-tokens': '24s'
    }
  })
  const one = world(replies, { cost: () => ({ tokens: 400 }) })
  await oneByOne(one, 3)
  t.strictSame(one.seconds(), [0, 0, 24])
})

t.test('a server that tells nothing is not held back', async t => {
  const one = world([{}])
  await all(one, 50)
  t.equal(one.time.passed, 0)
})

t.test('a request that is lost may have been counted', async t => {
  let broken = false
  const one = world(() => {
    if (broken) throw new TypeError('fetch failed')
    return told(1, 10)
  })
  await oneByOne(one, 1)
  broken = true
  await t.rejects(oneByOne(one, 1), { message: 'fetch failed' })
  broken = false
  await oneByOne(one, 1)
  t.strictSame(one.seconds(), [0, 0, 10])
})
