import { Readable } from 'node:stream'
import { request as send } from 'undici'
import t from 'tap'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { Gate, PLACES, client, get, inflight, listen } from './kit.js'
import type { Server } from './kit.js'

interface Sent {
  readonly url: string
  readonly method?: 'GET' | 'HEAD' | 'POST'
  readonly payload?: string | object
  readonly headers?: Readonly<Record<string, string>>
}

interface Case {
  readonly what: string
  readonly request?: Sent
  readonly status: number
  /** Whether the place was taken while the request was handled; default: it was. */
  readonly unhandled?: true
}

const cases: readonly Case[] = [
  { what: 'a response', status: 200 },
  { what: 'HEAD', request: { url: '/', method: 'HEAD' }, status: 200 },
  { what: 'no content', request: { url: '/empty' }, status: 204 },
  { what: 'a redirect', request: { url: '/moved' }, status: 302 },
  { what: 'not modified', request: { url: '/same' }, status: 304 },
  { what: 'no route', request: { url: '/nowhere' }, status: 404 },
  { what: 'a handler that throws', request: { url: '/throws' }, status: 500 },
  { what: 'a handler that rejects', request: { url: '/rejects' }, status: 500 },
  { what: 'a hook that fails', request: { url: '/hook' }, status: 500, unhandled: true },
  { what: 'an error handler that fails', request: { url: '/error-handler' }, status: 500 },
  { what: 'a response that cannot be serialized', request: { url: '/cycle' }, status: 500 },
  { what: 'an onSend hook that fails', request: { url: '/on-send' }, status: 500 },
  {
    what: 'a body that is not valid',
    request: { url: '/body', method: 'POST', payload: {} },
    status: 400,
    unhandled: true
  },
  {
    what: 'a body that cannot be parsed',
    request: { url: '/body', method: 'POST', payload: '{', headers: { 'content-type': 'application/json' } },
    status: 400,
    unhandled: true
  },
  {
    what: 'a body that is too large',
    request: { url: '/body', method: 'POST', payload: { name: 'x'.repeat(200) } },
    status: 413,
    unhandled: true
  },
  {
    what: 'a body of an unknown type',
    request: { url: '/body', method: 'POST', payload: 'x', headers: { 'content-type': 'x/y' } },
    status: 415,
    unhandled: true
  },
  { what: 'a stream', request: { url: '/stream' }, status: 200 },
  { what: 'a stream of the web', request: { url: '/web' }, status: 200 },
  { what: 'a Response', request: { url: '/fetched' }, status: 201 },
  { what: 'a hijacked response', request: { url: '/hijacked' }, status: 202 }
]

function declare(app: FastifyInstance, handled: () => Promise<unknown>): void {
  const answers: Readonly<Record<string, (reply: FastifyReply) => unknown>> = {
    '/empty': reply => reply.code(204).send(),
    '/moved': reply => reply.redirect('/'),
    '/same': reply => reply.code(304).send(),
    '/rejects': () => Promise.reject(new Error('rejected')),
    '/cycle': () => {
      const cycle: Record<string, unknown> = {}
      cycle['cycle'] = cycle
      return cycle
    },
    '/stream': () => Readable.from(['a', 'b', 'c']),
    '/web': reply => reply.send(Readable.toWeb(Readable.from([Buffer.from('a')]))),
    '/fetched': () => new Response('body', { status: 201 }),
    '/hijacked': reply => {
      reply.hijack()
      reply.raw.writeHead(202).end('mine')
    }
  }
  for (const [url, answer] of Object.entries(answers)) {
    app.get(url, async (_, reply) => {
      await handled()
      return answer(reply)
    })
  }
  app.get('/throws', { preHandler: async () => void (await handled()) }, () => {
    throw new Error('thrown')
  })
  app.get('/hook', { preHandler: async () => Promise.reject(new Error('hook')) }, async () => 'unreached')
  app.get('/on-send', { onSend: async () => Promise.reject(new Error('onSend')) }, async () => handled())
  app.get(
    '/error-handler',
    {
      errorHandler: () => {
        throw new Error('handler of errors')
      }
    },
    async () => {
      await handled()
      throw new Error('thrown')
    }
  )
  app.setNotFoundHandler(async (_, reply) => {
    await handled()
    return reply.code(404).send('nowhere')
  })
  const schema = { body: { type: 'object', required: ['name'] } }
  app.post('/body', { schema, bodyLimit: 100 }, async () => handled())
}

t.test('a place is taken while a request is handled, and free when its response is over', async t => {
  const taken: number[] = []
  const { app, port, held, untilHeld }: Server = await listen(t, {
    routes: app => {
      declare(app, async () => taken.push(await held()))
    }
  })
  for (const { what, request = { url: '/' }, status, unhandled } of cases) {
    await t.test(what, async t => {
      taken.length = 0
      const { method = 'GET', payload, headers = {} } = request
      const body = typeof payload === 'object' ? JSON.stringify(payload) : payload
      const json = typeof payload === 'object' ? { 'content-type': 'application/json' } : {}
      const response = await send(`http://127.0.0.1:${port}${request.url}`, {
        method,
        body: body ?? null,
        headers: { ...json, ...headers }
      })
      await response.body.dump()
      t.equal(response.statusCode, status)
      if (status !== 304 && status !== 302 && status !== 202)
        t.match(response.headers['ratelimit'], `"inflight";r=${PLACES - 1}`)
      await untilHeld(0)
      t.strictSame(taken, unhandled || request.url === '/' ? [] : [1])
    })
    await t.test(`${what}, injected`, async t => {
      t.equal((await app.inject(request)).statusCode, status)
      await untilHeld(0)
    })
  }
})

t.test('a response that breaks off gives its place back', async t => {
  const { port, untilHeld } = await listen(t, {
    routes: app => {
      app.get('/broken', async (_, reply) => {
        const broken = new Readable({ read: () => {} })
        broken.push('begun')
        setTimeout(() => broken.destroy(new Error('broken off')), 20)
        return reply.send(broken)
      })
    }
  })
  const { received, closed } = client(port, get('/broken'))
  await received('begun')
  await untilHeld(1)
  await closed
  await untilHeld(0)
})

t.test('a place is kept as long as the handler runs, on a connection that is kept too', async t => {
  const gates = [new Gate(), new Gate(), new Gate()]
  const { port, held, untilHeld } = await listen(t, {
    routes: app => {
      app.get<{ Params: { gate: number } }>('/:gate', async ({ params }) => {
        await gates[params.gate]!.pass()
        return `gate ${params.gate}`
      })
    }
  })
  const { socket, received, leave } = client(port, '')
  for (const [i, gate] of gates.entries()) {
    socket.write(get(`/${i}`))
    await gate.reached
    t.equal(await held(), 1)
    gate.open()
    await received(`gate ${i}`)
    await untilHeld(0)
  }
  leave()
})

t.test('a client that closes its side has left, for Node.js', async t => {
  const gate = new Gate()
  const { port, untilHeld } = await listen(t, {
    routes: app => {
      app.get('/slow', async () => gate.pass())
    }
  })
  const { socket } = client(port, get('/slow'))
  await gate.reached
  socket.end()
  await untilHeld(0)
})

t.test('the policy says how many places there are, and how many are left', async t => {
  const gate = new Gate()
  const { app, port, untilHeld } = await listen(t, {
    options: { policies: { inflight: { ...inflight, quota: 2 } } },
    routes: app => {
      app.get('/slow', async () => gate.pass())
    }
  })
  const first = await app.inject('/')
  t.equal(first.headers['ratelimit-policy'], '"inflight";q=2;qu="concurrent-requests"')
  t.equal(first.headers['ratelimit'], '"inflight";r=1')
  const slow = client(port, get('/slow'))
  await untilHeld(1)
  t.equal((await app.inject('/')).headers['ratelimit'], '"inflight";r=0')
  const other = client(port, get('/slow'))
  await untilHeld(2)
  const refused = await app.inject('/')
  t.equal(refused.statusCode, 429)
  t.equal(refused.headers['ratelimit'], '"inflight";r=0')
  t.equal(refused.headers['retry-after'], undefined)
  t.equal(refused.headers['content-type'], 'application/problem+json; charset=utf-8')
  t.strictSame(refused.json<{ 'violated-policies': unknown }>()['violated-policies'], ['inflight'])
  slow.leave()
  await untilHeld(1)
  t.equal((await app.inject('/')).statusCode, 200)
  other.leave()
  await untilHeld(0)
})
