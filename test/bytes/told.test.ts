import { request as send } from 'node:http'
import { connect } from 'node:net'
import { Readable } from 'node:stream'
import { fetch, request } from 'undici'
import t from 'tap'
import { start } from '../fixtures/upload/run.js'
import { chunk, CHUNKED, LAST_CHUNK, pieces } from './kit.js'

const TYPE = { 'content-type': 'x/y' }

// Clients in another process than the server, as in life: in one process they take turns, and lose nothing.
const clients: Readonly<Record<string, (port: number) => Promise<string>>> = {
  'node:http': port =>
    new Promise(resolve => {
      const req = send({ port, host: '127.0.0.1', method: 'POST', agent: false, headers: TYPE }, res => {
        let text = ''
        res.on('data', data => (text += data))
        res.on('end', () => resolve(`${res.statusCode} ${text}`))
      })
      req.on('error', ({ message }) => resolve(message))
      Readable.from(pieces(3e7, 65_536)).pipe(req)
    }),
  undici: async port => {
    const { statusCode, body } = await request(`http://127.0.0.1:${port}`, {
      method: 'POST',
      headers: TYPE,
      body: Readable.from(pieces(3e7, 65_536))
    })
    return `${statusCode} ${await body.text()}`
  },
  fetch: async port => {
    const response = await fetch(`http://127.0.0.1:${port}`, {
      method: 'POST',
      duplex: 'half',
      headers: TYPE,
      body: Readable.from(pieces(3e7, 65_536)) as never
    })
    return `${response.status} ${await response.text()}`
  },
  'a client that reads nothing before it has sent all': port =>
    new Promise(resolve => {
      const socket = connect({ port, host: '127.0.0.1' })
      let text = ''
      socket.on('data', data => (text += data.toString()))
      socket.on('error', ({ message }) => (text += message))
      socket.on('close', () => resolve(text.replace('HTTP/1.1 ', '')))
      socket.pause()
      socket.write(CHUNKED)
      let left = 160
      const go = (): void => {
        while (left-- > 0) if (!socket.write(chunk(65_536))) return void socket.once('drain', go)
        socket.write(LAST_CHUNK, () => socket.resume())
      }
      go()
    })
}

t.test('who is busy sending is told of the refusal', async t => {
  const { port } = await start(t, 100_000)
  for (const [name, upload] of Object.entries(clients)) {
    for (let i = 0; i < 3; i++) t.match(await upload(port), /^429 [^]*"violated-policies":\["bytes"\]/, name)
  }
})
