import { createServer } from 'node:http'
import type { IncomingMessage, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import {
  backsOff,
  everyPage,
  modelClient,
  orLater,
  whatIsLeft,
  withUndici
} from '../../examples/paced-client.js'
import { paced } from '../../src/client/index.js'

interface Served {
  readonly url: string
  readonly requests: readonly IncomingMessage[]
}

async function serve(
  t: Test,
  fields: (index: number) => Readonly<Record<string, string>>,
  status = 200
): Promise<Served> {
  const requests: IncomingMessage[] = []
  const server: Server = createServer((request, response) => {
    requests.push(request)
    response.writeHead(status, fields(requests.length - 1)).end(`answer to ${request.url}`)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, requests }
}

t.test('every page: all at once, and in the time of the quota', async t => {
  const { url, requests } = await serve(t, index => ({ ratelimit: `"p";r=${4 - (index % 5)};t=1` }))
  const started = performance.now()
  const pages = await everyPage(url, 12)
  t.equal(pages.length, 12)
  t.match(pages[11], 'answer to /?page=11')
  t.equal(requests.length, 12)
  t.ok(performance.now() - started >= 1900, 'two waits of a second')
})

t.test('or later: it says when to come back', async t => {
  const { url } = await serve(t, () => ({ 'retry-after': '3600' }), 429)
  t.match(await orLater(url), /^come back at 2\d{3}-/)
  const open = await serve(t, () => ({}))
  t.equal(await orLater(open.url), 'answer to /')
  await t.rejects(orLater('http://127.0.0.1:1/'), { message: 'fetch failed' })
})

t.test('a client of a language model: keys take turns, and waits are told', async t => {
  const { url, requests } = await serve(t, () => ({
    'ratelimit-policy': '"tpm";q=1000;qu="tokens";w=1',
    ratelimit: '"tpm";r=100;t=1'
  }))
  const lines: unknown[] = []
  t.intercept(console, 'log', { value: (line: unknown) => lines.push(line) })
  const api = modelClient(['one', 'two'])
  for (let i = 0; i < 3; i++) {
    const headers: Record<string, string> = i === 2 ? { 'x-background': 'yes' } : {}
    await (await api(url, { method: 'POST', body: 'hello', headers })).text()
  }
  t.strictSame(
    requests.map(({ headers }) => headers.authorization),
    ['Bearer one', 'Bearer two', 'Bearer one']
  )
  t.match(lines, [/^waiting for tpm until 2/])
})

t.test('with undici: the interceptor does the same', async t => {
  const { url } = await serve(t, () => ({}))
  t.equal(await withUndici(url), 'answer to /')
})

t.test('what is left: as the response tells', async t => {
  const { url } = await serve(t, () => ({ ratelimit: '"burst";r=9;t=10, "daily";r=999;t=86400' }))
  t.equal(await whatIsLeft(url), '9 of burst, 999 of daily')
  const silent = await serve(t, () => ({}))
  t.equal(await whatIsLeft(silent.url), '')
})

t.test('backs off: a paced client comes when it is asked to, and a hasty one is seen', async t => {
  const paces = await backsOff(paced(fetch))
  t.equal(paces.early, 0)
  t.ok(paces.came <= 5)
  const hasty: typeof fetch = async (input, init) => {
    for (;;) {
      const response = await fetch(input, init)
      await response.arrayBuffer()
      if (response.status === 200) return response
    }
  }
  const { came, early } = await backsOff(hasty)
  t.ok(early > 10)
  t.equal(came, early + 1)
})
