import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { AlgorithmName, PolicyOptions } from '../src/index.js'
import { acting, leftOf, serve, serveLater, stopProcessTime, stores } from './plugin/kit.js'

/** Only failures count: what succeeded is given back. */
const failures: PolicyOptions = { quota: 3, window: '10s', refund: (_, reply) => reply.statusCode < 400 }

/** Only what was answered counts. */
const answers: PolicyOptions = {
  quota: 5,
  window: '10s',
  refund: (_, reply) => !reply.raw.writableFinished || reply.statusCode >= 500
}

/** Lets responses end, and a store answer. */
async function over(): Promise<void> {
  for (let i = 0; i < 6; i++) await new Promise(resolve => setImmediate(resolve))
}

for (const [store, start] of Object.entries(stores)) {
  t.test(`with ${store} failed logins count, and no others`, async t => {
    const { app, clock } = await start(t, { logins: failures })
    const act = acting(app)
    const login = async (password: string): Promise<number> => {
      const { statusCode } = await act((_, reply) => reply.code(password === 'right' ? 200 : 401).send())
      await over()
      return statusCode
    }
    const codes: number[] = []
    for (const password of ['right', 'right', 'wrong', 'right', 'wrong', 'right', 'wrong', 'right', 'wrong'])
      codes.push(await login(password))
    t.strictSame(codes, [200, 200, 401, 200, 401, 200, 401, 429, 429])
    t.strictSame(await leftOf(app, ['logins']), { logins: 0 })
    clock.pass(10_000)
    t.strictSame(await leftOf(app, ['logins']), { logins: 3 }, 'refusals changed nothing')
    t.equal(await login('right'), 200)
    t.strictSame(await leftOf(app, ['logins']), { logins: 3 })
  })

  t.test(`with ${store} errors are free, and refusals wait as before`, async t => {
    const { app, clock } = await start(t, {
      answers: { quota: 3, window: '10s', refund: (_, reply) => reply.statusCode >= 500 }
    })
    const act = acting(app)
    const codes: unknown[] = []
    const ask = async (code: number): Promise<void> => {
      const { statusCode, headers } = await act((_, reply) => reply.code(code).send())
      codes.push([statusCode, headers['retry-after']])
      await over()
      clock.pass(1000)
    }
    for (const code of [200, 500, 503, 200, 500, 200, 200, 500]) await ask(code)
    t.strictSame(codes, [
      [200, undefined],
      [500, undefined],
      [503, undefined],
      [200, undefined],
      [500, undefined],
      [200, undefined],
      [429, '4'],
      [429, '3']
    ])
    clock.pass(10_000)
    t.strictSame(await leftOf(app, ['answers']), { answers: 3 })
  })

  t.test(`with ${store} a settlement has the last word`, async t => {
    const asked: unknown[] = []
    const all = (name: string) => (): boolean => asked.push(name) > 0
    const { app } = await start(t, {
      a: { quota: 9, window: '10s', cost: 4, refund: all('a') },
      b: { quota: 9, window: '10s', cost: 4, refund: all('b') }
    })
    const act = acting(app)
    await act(({ quota }) => quota.settle('a', 3))
    await over()
    t.strictSame(await leftOf(app, ['a', 'b']), { a: 6, b: 9 })
    t.strictSame(asked, ['b'])
  })
}

const amounts: Readonly<Record<string, { refund: unknown; left: number; fails?: boolean }>> = {
  'true gives back all': { refund: true, left: 10 },
  'false gives back nothing': { refund: false, left: 4 },
  'nothing gives back nothing': { refund: undefined, left: 4 },
  'null gives back nothing': { refund: null, left: 4 },
  'units are given back': { refund: 2, left: 6 },
  '0 units are nothing': { refund: 0, left: 4 },
  'more units than were charged are all of them': { refund: 100, left: 10 },
  'a negative number is a fault': { refund: -1, left: 4, fails: true },
  'a fraction is a fault': { refund: 0.5, left: 4, fails: true },
  'a text is a fault': { refund: 'yes', left: 4, fails: true },
  'NaN is a fault': { refund: NaN, left: 4, fails: true }
}

for (const [what, { refund, left, fails = false }] of Object.entries(amounts)) {
  t.test(`of what a refund returns, ${what}`, async t => {
    const { app, errors } = await serve(t, {
      any: { quota: 10, window: '10s', cost: 6, refund: () => refund as boolean }
    })
    t.equal((await app.inject('/')).statusCode, 200)
    await over()
    t.strictSame(await leftOf(app, ['any']), { any: left })
    t.strictSame(
      errors.map(({ option, msg }) => [option, msg]),
      fails
        ? [
            [
              'refund of policy "any"',
              'fastify-quota: refund of policy "any" failed, so nothing is given back'
            ]
          ]
        : []
    )
  })
}

const broken: Readonly<Record<string, () => unknown>> = {
  throws: () => {
    throw new Error('no refund')
  },
  rejects: async () => Promise.reject(new Error('no refund, later')),
  'returns a promise': async () => true
}

for (const [what, refund] of Object.entries(broken)) {
  t.test(`a refund that ${what} gives nothing back, and is logged once a minute`, async t => {
    const process = stopProcessTime(t)
    const { app, errors, statuses } = await serve(t, {
      any: { quota: 5, window: '10s', refund: refund as () => boolean },
      other: { quota: 5, window: '10s', refund: () => true }
    })
    t.strictSame(await statuses('/', '/', '/'), [200, 200, 200])
    await over()
    t.equal(errors.length, 1)
    process.pass(60_000)
    await statuses('/')
    await over()
    t.equal(errors.length, 2)
    t.strictSame(await leftOf(app, ['any', 'other']), { any: 1, other: 5 })
  })
}

t.test('a refund is for the units of its own window, and dropped when that is over', async t => {
  for (const algorithm of ['sliding-window', 'sliding-window-log', 'fixed-window'] as AlgorithmName[]) {
    const { app, clock, statuses } = await serve(t, {
      five: { quota: 5, window: '1s', algorithm, refund: () => true }
    })
    let go: (value: string) => void = () => {}
    const wait = new Promise<string>(resolve => (go = resolve))
    app.get('/slow', () => wait)
    const slow = Array.from({ length: 5 }, () => app.inject('/slow'))
    await over()
    t.strictSame(await statuses('/'), [429], algorithm)
    clock.pass(1500)
    await app.quota.consume({ ip: '127.0.0.1' }, { five: 5 })
    go('slow')
    for (const { statusCode } of await Promise.all(slow)) t.equal(statusCode, 200)
    await over()
    t.strictSame(await leftOf(app, ['five']), { five: 0 }, `${algorithm}: none of them were theirs`)
    clock.pass(1000)
    t.strictSame(await leftOf(app, ['five']), { five: 5 })
    const twelve = await Promise.all(
      Array.from({ length: 12 }, () => app.quota.consume({ ip: '127.0.0.1' }, { five: 1 }))
    )
    t.equal(twelve.filter(({ outcome }) => outcome === 'allowed').length, 5)
  }
})

t.test('what a later stage refuses is given back once, and nobody is asked', async t => {
  for (const start of [serve, serveLater]) {
    let asked = 0
    const { app } = await start(t, {
      first: {
        quota: 9,
        window: '10s',
        hook: 'onRequest',
        refund: () => ++asked > 0
      },
      never: { quota: 0, window: '10s' }
    })
    t.equal((await app.inject('/')).statusCode, 429)
    await over()
    t.strictSame([asked, await leftOf(app, ['first'])], [0, { first: 9 }])
  }
})

t.test('what arrived of a body whose rest is refused stays charged, and nobody is asked', async t => {
  let asked = 0
  const { app } = await serve(t, {
    bytes: { quota: 100_000, window: '10s', unit: 'content-bytes', refund: () => ++asked > 0 }
  })
  const { statusCode } = await app.inject({
    method: 'POST',
    url: '/',
    headers: { 'transfer-encoding': 'chunked', 'content-type': 'text/plain' },
    payload: Readable.from([Buffer.alloc(65_536), Buffer.alloc(65_536)])
  })
  await over()
  t.strictSame([statusCode, asked, await leftOf(app, ['bytes'])], [429, 0, { bytes: 34_464 }])
})

t.test('each policy is asked once, at whatever stage it was decided, about all it charged', async t => {
  const asked: string[] = []
  const refund = (name: string, answer: boolean | number) => (): boolean | number => {
    asked.push(name)
    return answer
  }
  const { app } = await serve(t, {
    early: { quota: 9, window: '10s', hook: 'onRequest', refund: refund('early', false) },
    late: { quota: 9, window: '10s', hook: 'preHandler', refund: refund('late', 3) },
    free: { quota: 9, window: '10s', cost: 0, refund: refund('free', true) },
    off: { quota: 9, window: '10s', exempt: () => true, refund: refund('off', true) }
  })
  const act = acting(app)
  await act(async ({ quota }) => {
    await quota.reserve('early', 2)
    await quota.spend('late', 3)
  })
  await over()
  t.strictSame(asked, ['early', 'free', 'late'])
  t.strictSame(await leftOf(app, ['early', 'late', 'free']), { early: 6, late: 8, free: 9 })
})

t.test('a store that fails to take a refund back is logged, and the server lives', async t => {
  const { errors, store, statuses } = await serveLater(t, {
    any: { quota: 9, window: '10s', refund: () => true }
  })
  store.settle = () => Promise.reject(new Error('no answer'))
  await statuses('/')
  await over()
  store.settle = () => {
    throw new Error('no answer at all')
  }
  await statuses('/')
  await over()
  t.match(errors, [{ option: 'refund of policy "any"', err: { message: 'no answer' } }])
})

interface Endings {
  readonly app: FastifyInstance
  readonly port: number
  /** How often the policy was asked. */
  readonly asked: () => number
}

/** A server with routes that end in many ways. */
async function endings(t: Parameters<typeof serve>[0]): Promise<Endings> {
  let asked = 0
  const { app } = await serve(
    t,
    {
      answers: {
        ...answers,
        refund: (request, reply) => {
          asked++
          return answers.refund!(request, reply)
        }
      }
    },
    { forceCloseConnections: true }
  )
  app.get('/error', async () => Promise.reject(new Error('broken')))
  app.get('/hang', () => new Promise<string>(() => {}))
  app.get('/cut', async (_, reply) => {
    void reply.header('content-length', '10')
    return Readable.from(
      (async function* () {
        yield 'half'
        throw new Error('the other half is lost')
      })()
    )
  })
  app.get('/timeout', request => {
    setTimeout(() => request.raw.socket.destroy(), 10)
    return new Promise<string>(() => {})
  })
  app.post('/upload', async () => 'uploaded')
  await app.listen({ port: 0, host: '127.0.0.1' })
  return { app, port: (app.server.address() as AddressInfo).port, asked: () => asked }
}

/** Sends text over a connection, and closes it when told to: at once, or when an answer came. */
function speak(port: number, text: string, leave: 'at once' | 'after the answer' | 'never'): Promise<void> {
  return new Promise(resolve => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    if (leave === 'at once') setTimeout(() => socket.destroy(), 30)
    socket.on('data', () => leave === 'after the answer' && socket.destroy())
  })
}

const get = (url: string): string => `GET ${url} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`

const ends: Readonly<Record<string, { text: string; leave: Parameters<typeof speak>[2]; left: number }>> = {
  'a success costs one': { text: get('/'), leave: 'never', left: 4 },
  'a client that leaves after the answer has paid': {
    text: get('/').replace('close', 'keep-alive'),
    leave: 'after the answer',
    left: 4
  },
  'an error is free': { text: get('/error'), leave: 'never', left: 5 },
  'a client that leaves while it is served is free': { text: get('/hang'), leave: 'at once', left: 5 },
  'a client that leaves while it uploads is free': {
    text: 'POST /upload HTTP/1.1\r\nhost: a\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nhalf',
    leave: 'at once',
    left: 5
  },
  'a stream that breaks is free': { text: get('/cut'), leave: 'never', left: 5 },
  'a connection that times out is free': { text: get('/timeout'), leave: 'never', left: 5 }
}

for (const [what, { text, leave, left }] of Object.entries(ends)) {
  t.test(`of all that end, once each, ${what}`, async t => {
    const { app, port, asked } = await endings(t)
    await speak(port, text, leave)
    for (let i = 0; i < 50 && asked() === 0; i++) await new Promise(resolve => setTimeout(resolve, 5))
    await over()
    t.equal(asked(), 1)
    t.strictSame(await leftOf(app, ['answers']), { answers: left })
  })
}
