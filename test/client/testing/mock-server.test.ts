import { connect } from 'node:net'
import type { Test } from 'tap'
import t from 'tap'
import { paced } from '../../../src/client/index.js'
import { mockServer } from '../../../src/client/testing/index.js'
import type { Answer, AnswerName, MockServer } from '../../../src/client/testing/index.js'

async function serve(t: Test, script: readonly (AnswerName | Answer)[]): Promise<MockServer> {
  const server = await mockServer(script)
  t.teardown(() => server.close())
  return server
}

t.test('it answers by its script and records what came when', async t => {
  const server = await serve(t, ['served', { answer: 'no-header' }])
  const sent: RequestInit = { method: 'POST', body: 'hello', headers: { 'x-a': '1' } }
  t.equal((await fetch(`${server.url}/items?page=2`)).status, 200)
  t.equal((await fetch(`${server.url}/chat`, sent)).status, 429)
  t.match(server.requests, [
    { method: 'GET', url: '/items?page=2', body: '', answer: 'served', status: 200, early: 0 },
    {
      method: 'POST',
      url: '/chat',
      body: 'hello',
      answer: 'no-header',
      status: 429,
      early: 0,
      headers: { 'x-a': '1' }
    }
  ])
  const [first, second] = server.requests
  t.ok(first!.at > 0 && second!.at > first!.at)
})

t.test('it tells who came too early, and by how much', async t => {
  const server = await serve(t, [{ answer: 'requests', retryAfter: 100 }, 'served', 'served'])
  for (let i = 0; i < 3; i++) await fetch(server.url)
  const [refused, tooEarly, stillTooEarly] = server.requests
  t.equal(refused?.early, 0)
  t.ok(tooEarly!.early > 90_000 && tooEarly!.early <= 100_000)
  t.ok(stillTooEarly!.early > 90_000 && stillTooEarly!.early < tooEarly!.early)
})

t.test('a client that obeys is not early', async t => {
  const server = await serve(t, ['requests'])
  const api = paced(fetch)
  t.equal((await api(server.url)).status, 200)
  t.match(server.requests, [
    { answer: 'requests', early: 0 },
    { answer: 'served', early: 0 }
  ])
})

t.test('a request that breaks off is not recorded', async t => {
  const server = await serve(t, [])
  const { port } = new URL(server.url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nbegun')
  await new Promise(resolve => setTimeout(resolve, 20))
  socket.destroy()
  await new Promise(resolve => setTimeout(resolve, 20))
  t.equal((await fetch(server.url)).status, 200)
  t.equal(server.requests.length, 1)
})

t.test('it ends with all its connections', async t => {
  const server = await mockServer([])
  await fetch(server.url)
  await server.close()
  await t.rejects(fetch(server.url))
})

t.test('a wrong script starts nothing', async t => {
  await t.rejects(mockServer(['nonsense' as AnswerName]), { code: 'QUOTA_OPTION' })
})
