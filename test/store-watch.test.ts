import { channel } from 'node:diagnostics_channel'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import quota, { memoryStore } from '../src/index.js'
import type { Store, StoreChange } from '../src/index.js'
import { watchStore } from '../src/store-watch.js'
import { STORE_CHANNEL } from '../src/store.js'
import { script } from '../src/stores/redis/script.js'
import { ready } from './plugin/kit.js'

const INFO = 30
const WARN = 40
const ERROR = 50

interface Line {
  readonly level: number
  readonly msg: string
  readonly code?: string
  readonly node?: string
  readonly err?: { readonly code: string; readonly message: string }
}

/** An app, and what it has logged of its store: its line at boot has no code. */
function logging(t: Test): { readonly app: FastifyInstance; readonly lines: readonly Line[] } {
  const lines: Line[] = []
  const stream = {
    write: (text: string): void => {
      const line = JSON.parse(text) as Line
      if (line.code !== undefined) lines.push(line)
    }
  }
  const app = Fastify({ logger: { level: 'info', stream } }) as unknown as FastifyInstance
  t.teardown(() => app.close())
  return { app, lines }
}

/** As a store tells of itself. */
function tell(store: Store, state: StoreChange['state'], code: string, node?: string): void {
  channel(STORE_CHANNEL).publish({ store, state, code, node } satisfies StoreChange)
}

t.test('the channel is the one that the documentation names', async t => {
  t.equal(STORE_CHANNEL, 'fastify-quota:store')
})

t.test('each change is a line, as grave as it is', async t => {
  const { app, lines } = logging(t)
  const store = memoryStore()
  t.teardown(watchStore(store, app.log))
  tell(store, 'down', 'ECONNREFUSED')
  tell(store, 'up', 'OK')
  tell(store, 'fault', 'NOPERM')
  t.match(lines, [
    {
      level: WARN,
      code: 'ECONNREFUSED',
      msg: 'fastify-quota: the store does not answer (ECONNREFUSED), so policies do as onStoreFailure says'
    },
    { level: INFO, code: 'OK', msg: 'fastify-quota: the store answers again' },
    {
      level: ERROR,
      code: 'NOPERM',
      err: { code: 'FST_QUOTA_STORE', message: 'the store refuses to count: NOPERM' },
      msg: 'fastify-quota: the store answers with an error that waiting does not mend, so policies do as onStoreFailure says'
    }
  ])
  t.equal(lines.length, 3)
})

t.test('the node of a cluster is named, if there is one', async t => {
  const { app, lines } = logging(t)
  const store = memoryStore()
  t.teardown(watchStore(store, app.log))
  for (const state of ['down', 'up', 'fault'] as const) {
    tell(store, state, 'TIMEOUT', '127.0.0.1:7001')
    tell(store, state, 'TIMEOUT')
  }
  t.strictSame(
    lines.map(({ node }) => node),
    ['127.0.0.1:7001', undefined, '127.0.0.1:7001', undefined, '127.0.0.1:7001', undefined]
  )
  t.notOk(lines.some(line => Object.keys(line).includes('node') && line.node === undefined))
})

t.test('where a command is missing, or forbidden, those that are needed are named', async t => {
  const { app, lines } = logging(t)
  const store = memoryStore()
  t.teardown(watchStore(store, app.log))
  const called = [...script(false).matchAll(/redis\.call\('(\w+)'/g)].map(([, command]) => command!)
  for (const code of ['NOPERM', 'ERR']) tell(store, 'fault', code)
  for (const { err } of lines) {
    const named = /it calls ([A-Z, ]+);/.exec(err!.message)?.[1]!.split(', ')
    t.strictSame(named?.toSorted(), [...new Set(['EVAL', 'EVALSHA', ...called])].toSorted())
    t.match(err!.message, "where a script may not call TIME, give redisStore time: 'caller'")
  }
  tell(store, 'fault', 'WRONGTYPE')
  t.equal(lines.at(-1)!.err!.message, 'the store refuses to count: WRONGTYPE')
})

t.test('what other stores tell is not logged, nor what is told when it is over', async t => {
  const { app, lines } = logging(t)
  const store = memoryStore()
  const end = watchStore(store, app.log)
  tell(memoryStore(), 'down', 'ECONNREFUSED')
  t.equal(lines.length, 0)
  end()
  tell(store, 'down', 'ECONNREFUSED')
  t.equal(lines.length, 0)
  t.equal(channel(STORE_CHANNEL).hasSubscribers, false, 'and nobody listens any more')
})

t.test('an app logs what its store tells, from its boot to its end', async t => {
  const [one, two] = [logging(t), logging(t)]
  const [store, other] = [memoryStore(), memoryStore()]
  await one.app.register(quota, { policies: { any: '5/1m' }, store })
  await one.app.register(async child => {
    await child.register(quota, { policies: { more: '2/1m' } })
  })
  await two.app.register(quota, { policies: { any: '5/1m' }, store: other })
  await Promise.all([ready(one.app), ready(two.app)])
  tell(store, 'down', 'READONLY')
  tell(other, 'down', 'TIMEOUT')
  const codes = ({ lines }: typeof one): unknown => lines.map(({ code }) => code)
  t.strictSame(codes(one), ['READONLY'], 'once, however often the plugin is registered')
  t.strictSame(codes(two), ['TIMEOUT'])
  await one.app.close()
  tell(store, 'up', 'OK')
  t.strictSame(codes(one), ['READONLY'])
})

t.test('what a store tells while it closes is logged', async t => {
  const { app, lines } = logging(t)
  const store = memoryStore()
  const close = store.close.bind(store)
  store.close = () => {
    tell(store, 'down', 'CONNECTION')
    close()
  }
  await app.register(quota, { policies: { any: '5/1m' }, store })
  await ready(app)
  await app.close()
  t.match(lines, [{ level: WARN, code: 'CONNECTION' }])
})

t.test('apps that share a store log it each', async t => {
  const [one, two] = [logging(t), logging(t)]
  const store = memoryStore()
  for (const { app } of [one, two]) {
    await app.register(quota, { policies: { any: '5/1m' }, store })
    await ready(app)
  }
  await one.app.close()
  tell(store, 'down', 'OOM')
  t.equal(one.lines.length, 0)
  t.match(two.lines, [{ code: 'OOM' }])
})
