import { setTimeout as sleep } from 'node:timers/promises'
import { Readable } from 'node:stream'
import t from 'tap'
import type { FastifyInstance } from 'fastify'
import type { QuotaOptions } from '../../src/index.js'
import { LaterStore } from '../plugin/kit.js'
import { Gate, client, get, gone, inflight, listen, post, until } from './kit.js'
import type { Build } from './kit.js'

const HOOKS = ['onRequest', 'preParsing', 'preValidation', 'preHandler'] as const

interface Phase {
  readonly what: string
  /** Arms a server to come to the gate in this phase, and to go on when the client has gone. */
  readonly build: (gate: Gate) => Build
  readonly request: string
  /** Places taken when the gate is reached. */
  readonly taken: number
}

/** Comes to the gate in a hook. */
function inHook(hook: (typeof HOOKS)[number] | 'preSerialization' | 'onSend', gate: Gate) {
  return (app: FastifyInstance): void => {
    app.addHook(hook as 'onRequest', async request => {
      if (request.url === '/') return
      await gate.pass()
      await gone(request)
    })
  }
}

const asked = { post: post('/asked', '{}'), get: get('/asked') }

const phases: readonly Phase[] = [
  ...HOOKS.map(hook => ({
    what: `in an ${hook} hook before the decision`,
    build: (gate: Gate) => ({
      before: inHook(hook, gate),
      options: { policies: { inflight: { ...inflight, hook } } }
    }),
    request: asked.post,
    taken: 0
  })),
  ...HOOKS.map(hook => ({
    what: `in an ${hook} hook after the decision`,
    build: (gate: Gate) => ({
      options: { policies: { inflight: { ...inflight, hook } } },
      routes: inHook(hook, gate)
    }),
    request: asked.post,
    taken: 1
  })),
  ...(['preSerialization', 'onSend'] as const).map(hook => ({
    what: `in an ${hook} hook`,
    build: (gate: Gate) => ({ routes: inHook(hook, gate) }),
    request: asked.post,
    taken: 1
  })),
  {
    what: 'while it is identified',
    build: gate => ({
      options: {
        identify: {
          user: async request => {
            if (request.url === '/') return 'x'
            await gate.pass()
            await gone(request)
            return 'x'
          }
        },
        policies: { inflight, mine: { ...inflight, partition: 'user' } }
      }
    }),
    request: asked.get,
    taken: 0
  },
  {
    what: 'while its cost is told',
    build: gate => ({
      options: {
        policies: {
          inflight: {
            ...inflight,
            cost: async request => {
              if (request.url === '/') return 1
              await gate.pass()
              await gone(request)
              return 1
            }
          }
        }
      }
    }),
    request: asked.get,
    taken: 0
  },
  {
    what: 'in the handler',
    build: gate => ({
      routes: app => {
        app.get('/handler', async request => {
          await gate.pass()
          await gone(request)
          return 'unheard'
        })
      }
    }),
    request: get('/handler'),
    taken: 1
  },
  {
    what: 'in a handler that goes on for ever',
    build: gate => ({
      routes: app => {
        app.get('/handler', async () => {
          gate.reach()
          return new Promise(() => {})
        })
      }
    }),
    request: get('/handler'),
    taken: 1
  },
  {
    what: 'during the upload',
    build: gate => ({
      routes: app => {
        app.addHook('preParsing', async () => gate.reach())
      }
    }),
    request: post('/asked', '{"half"', 100),
    taken: 1
  },
  {
    what: 'during the response',
    build: gate => ({
      routes: app => {
        app.get('/stream', async () => {
          const stream = new Readable({ read: () => {} })
          stream.push('begun')
          setTimeout(gate.reach, 20)
          return stream
        })
      }
    }),
    request: get('/stream'),
    taken: 1
  },
  {
    what: 'in a hijacked response',
    build: gate => ({
      routes: app => {
        app.get('/hijacked', async (_, reply) => {
          reply.hijack()
          reply.raw.write('begun')
          gate.reach()
        })
      }
    }),
    request: get('/hijacked'),
    taken: 1
  }
]

const stores: Readonly<Record<string, () => Pick<QuotaOptions, 'store'>>> = {
  'that answers at once': () => ({}),
  'that answers later': () => ({ store: new LaterStore(() => Math.floor(performance.now())) })
}

for (const [answers, store] of Object.entries(stores)) {
  for (const { what, build, request, taken } of phases) {
    t.test(`a client that leaves ${what} leaves its place, with a store ${answers}`, async t => {
      const gate = new Gate()
      const { options, routes, ...rest } = build(gate)
      let handled = 0
      const { app, port, untilHeld, errors } = await listen(t, {
        ...rest,
        options: { ...options, ...store() },
        routes: async app => {
          await routes?.(app)
          app.get('/asked', async () => ++handled)
          app.post('/asked', async () => ++handled)
        }
      })
      const { leave, closed } = client(port, request)
      await gate.reached
      await untilHeld(taken)
      leave()
      await closed
      gate.open()
      await untilHeld(0)
      await sleep(20)
      await untilHeld(0)
      if (taken === 0) t.equal(handled, 0, 'nobody is there to be served')
      t.strictSame(errors, [])
      t.equal((await app.inject('/')).statusCode, 200)
      await untilHeld(0)
    })
  }
}

t.test('a client that leaves after the response has nothing to leave', async t => {
  const { port, untilHeld, held } = await listen(t)
  const { received, leave, closed } = client(port, get())
  await received('served')
  await untilHeld(0)
  leave()
  await closed
  await sleep(20)
  t.equal(await held(), 0)
})

for (const [method, request] of [
  ['GET', get('/slow')],
  ['POST', post('/slow', '{}')]
] as const) {
  t.test(`requests sent ahead take places, and a client that leaves leaves them all: ${method}`, async t => {
    const ahead = 15
    const gate = new Gate()
    let handled = 0
    const { port, untilHeld } = await listen(t, {
      options: { policies: { inflight: { ...inflight, quota: 100 } } },
      routes: app => {
        app.all('/slow', async () => {
          handled++
          await gate.pass()
          return 'unheard'
        })
      }
    })
    const warned: string[] = []
    const warn = ({ name }: Error): void => void warned.push(name)
    process.on('warning', warn)
    t.teardown(() => process.off('warning', warn))
    const { leave } = client(port, request.repeat(ahead))
    await untilHeld(ahead)
    await until(() => handled === ahead)
    leave()
    await untilHeld(0)
    gate.open()
    await sleep(20)
    t.strictSame(warned, [], 'the connection has one listener, not one for each request')
  })
}

t.test(
  'requests sent ahead are answered in turn, and each gives its place back with its response',
  async t => {
    const gates = [new Gate(), new Gate(), new Gate()]
    const { port, untilHeld } = await listen(t, {
      routes: app => {
        app.get<{ Params: { gate: number } }>('/:gate', async ({ params }) => {
          await gates[params.gate]!.pass()
          return `gate ${params.gate}`
        })
      }
    })
    const { received, leave } = client(port, get('/0') + get('/1') + get('/2'))
    await untilHeld(3)
    gates[1]!.open()
    await sleep(20)
    await untilHeld(3) // its turn has not come
    gates[0]!.open()
    await received('gate 1')
    await untilHeld(1)
    gates[2]!.open()
    await received('gate 2')
    await untilHeld(0)
    leave()
  }
)
