import t from 'tap'
import type { PacedOptions } from '../../src/client/index.js'
import { told, world } from './kit.js'
import type { Call, Reply, World } from './kit.js'

/** A server that counts tokens in fixed windows of 10 s, 1000 in each, and tells what is left. */
function tokenServer(time: () => number): (call: Call) => Reply {
  let window = 0
  let left = 1000
  return ({ path }) => {
    const current = Math.floor(time() / 10_000)
    if (current > window) left = 1000
    window = current
    const cost = Number(path.slice(1))
    const seconds = Math.ceil(((window + 1) * 10_000 - time()) / 1000)
    if (cost <= left) left -= cost
    return {
      status: cost <= left + cost ? 200 : 429,
      fields: { 'ratelimit-policy': '"t";q=1000;qu="tokens";w=10', ratelimit: `"t";r=${left};t=${seconds}` }
    }
  }
}

const byPath: PacedOptions = {
  cost: ({ url }) => ({ tokens: Number(url.pathname.slice(1)) }),
  route: () => 'all'
}

function tokens(options: PacedOptions = {}): World {
  const one: World = world(call => respond(call), { ...byPath, ...options })
  const respond = tokenServer(() => one.time.passed)
  return one
}

async function send(one: World, costs: readonly number[]): Promise<readonly string[]> {
  const responses = costs.map(async cost => {
    const { status } = await one.api(`http://api.test/${cost}`)
    t.equal(status, 200)
  })
  await one.time.run(Promise.all(responses))
  return one.calls.map(({ at, path }) => `${path.slice(1)} at ${at / 1000}`)
}

t.test('small requests go where there is no room for a large one', async t => {
  const one = tokens()
  t.strictSame(await send(one, [600, 700, 100, 200]), ['600 at 0', '100 at 0', '200 at 0', '700 at 10'])
})

t.test('a large request is overtaken by as much as it costs, and then it is next', async t => {
  const one = tokens()
  const order = await send(one, [700, 500, ...Array<number>(10).fill(100)])
  t.strictSame(order.slice(0, 4), ['700 at 0', '100 at 0', '100 at 0', '100 at 0'])
  t.equal(order[4], '500 at 10')
})

t.test('a large request does not starve among small ones that go on coming', async t => {
  const one = tokens()
  await send(one, [900])
  const large = one.api('http://api.test/950')
  let sentAt = 0
  void large.then(() => (sentAt = one.time.passed))
  const small = async (): Promise<void> => {
    for (let i = 0; i < 60; i++) {
      await one.api('http://api.test/50')
      await one.time.sleep(100)
    }
  }
  await one.time.run(Promise.all([small(), small(), large]))
  t.ok(sentAt <= 30_000, `the large one was sent at ${sentAt}`)
})

t.test('once it is next, small ones leave what comes back to it', async t => {
  let level = 0
  let since = 0
  const bucket = ({ at, path }: Call): Reply => {
    level = Math.min(1000, level + (at - since) / 10)
    since = at
    const cost = Number(path.slice(1))
    const isServed = cost <= level
    if (isServed) level -= cost
    const fields = {
      'ratelimit-policy': '"t";q=1000;qu="tokens";w=10',
      ratelimit: `"t";r=${Math.floor(level)};t=1`
    }
    return { status: isServed ? 200 : 429, fields }
  }
  const one = world(bucket, byPath)
  await one.time.run(one.api('http://api.test/0'))
  const large = one.api('http://api.test/500')
  const state = { sent: false }
  void large.then(() => (state.sent = true))
  const small = async (): Promise<void> => {
    while (!state.sent) await one.api('http://api.test/50')
  }
  await one.time.run(Promise.all([large, small(), small()]))
  const spentBefore = one.calls.filter(({ path }) => path === '/50').length * 50
  t.ok(spentBefore >= 500 && spentBefore <= 700, `${spentBefore} were spent by small ones before`)
  t.ok(one.time.passed <= 14_000, `it was sent by ${one.time.passed}`)
})

t.test('one that came again after a refusal is not overtaken without an end either', async t => {
  const replies = (call: Call, index: number): Reply => {
    if (index === 1) {
      const fields = {
        'ratelimit-policy': '"t";q=1000;qu="tokens";w=10',
        ratelimit: '"t";r=500;t=10',
        'retry-after': '10'
      }
      return { status: 429, fields }
    }
    const left = index === 0 ? 1000 : Math.max(0, 500 - 100 * (index - 1))
    const seconds = call.at >= 10_000 ? 1 : 10
    return {
      fields: { 'ratelimit-policy': '"t";q=1000;qu="tokens";w=10', ratelimit: `"t";r=${left};t=${seconds}` }
    }
  }
  const one = world(replies, { ...byPath, jitter: 0 })
  await one.time.run(one.api('http://api.test/0'))
  await one.time.run(
    Promise.all([600, 100, 100, 100, 100, 100].map(cost => one.api(`http://api.test/${cost}`)))
  )
  const paths = one.calls.map(({ path }) => path.slice(1))
  t.strictSame(paths.slice(0, 7), ['0', '600', '100', '100', '100', '100', '100'])
  t.equal(paths[7], '600')
})

t.test('requests that need nothing of what has run out go on', async t => {
  const one = tokens()
  t.strictSame(await send(one, [1000, 500, 0, 0]), ['1000 at 0', '0 at 0', '0 at 0', '500 at 10'])
})

t.test('a request overtakes where it spends, and nowhere else', async t => {
  const fields = (tokens: number): Readonly<Record<string, string>> => ({
    'ratelimit-policy': '"r";q=100;w=10, "t";q=1000;qu="tokens";w=10',
    ratelimit: `"r";r=50;t=10, "t";r=${tokens};t=10`
  })
  const one = world(({ at }) => ({ fields: fields(at < 10_000 ? 100 : 1000) }), byPath)
  await one.time.run(one.api('http://api.test/0'))
  await one.time.run(Promise.all([500, 0, 50].map(cost => one.api(`http://api.test/${cost}`))))
  t.strictSame(
    one.calls.map(({ at, path }) => `${path.slice(1)} at ${at / 1000}`),
    ['0 at 0', '0 at 0', '50 at 0', '500 at 10']
  )
})

const withKeys = (more: PacedOptions = {}): PacedOptions => ({
  route: () => 'all',
  keys: { values: ['a', 'b', 'c'], apply: key => ({ 'x-key': key }) },
  ...more
})

const keysOf = ({ calls }: World): readonly unknown[] => calls.map(({ headers }) => headers.get('x-key'))

t.test('of several keys the one that has spent the least of its quota is used', async t => {
  const left: Record<string, number> = { a: 3, b: 9, c: 6 }
  const one = world(({ headers }) => told(left[headers.get('x-key')!]!--, 10), withKeys())
  const send = async (): Promise<void> => {
    for (let i = 0; i < 12; i++) await one.api('http://api.test/')
  }
  await one.time.run(send())
  t.strictSame(keysOf(one), ['a', 'b', 'c', 'b', 'b', 'b', 'c', 'b', 'c', 'b', 'c', 'b'])
  t.equal(one.time.passed, 0)
})

t.test('where nothing is told the keys take turns', async t => {
  const one = world([{}], withKeys())
  const send = async (): Promise<void> => {
    for (let i = 0; i < 7; i++) await one.api('http://api.test/')
  }
  await one.time.run(send())
  t.strictSame(keysOf(one), ['a', 'b', 'c', 'a', 'b', 'c', 'a'])
})

t.test('a key whose quota is used up holds back only itself', async t => {
  const replies = ({ headers }: Call): Reply =>
    headers.get('x-key') === 'a' ? { status: 429, fields: { 'retry-after': '60' } } : {}
  const one = world(replies, withKeys())
  t.equal((await one.time.run(one.api('http://api.test/'))).status, 200)
  t.strictSame(keysOf(one), ['a', 'b'])
  t.equal(one.time.passed, 0)
})

t.test('when all keys have run out the one that comes back first is waited for', async t => {
  const seconds: Readonly<Record<string, number>> = { a: 30, b: 10, c: 20 }
  const one = world(({ headers }) => told(0, seconds[headers.get('x-key')!]!), withKeys())
  const send = async (): Promise<void> => {
    for (let i = 0; i < 5; i++) await one.api('http://api.test/')
  }
  await one.time.run(send())
  t.strictSame(keysOf(one), ['a', 'b', 'c', 'b', 'c'])
  t.strictSame(one.seconds(), [0, 0, 0, 10, 20])
})
