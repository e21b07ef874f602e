import { Readable } from 'node:stream'
import t from 'tap'
import { isReplayable, methodAndPath, plainCosts } from '../../src/client/outgoing.js'
import type { OutgoingRequest } from '../../src/client/outgoing.js'

const request = (more: Partial<OutgoingRequest>): OutgoingRequest => ({
  url: new URL('http://api.test/items?page=2'),
  method: 'GET',
  headers: new Headers(),
  body: undefined,
  ...more
})

t.test('requests of a method and path are one route, and HEAD is as GET', async t => {
  t.equal(methodAndPath(request({})), 'GET /items')
  t.equal(methodAndPath(request({ method: 'HEAD' })), 'GET /items')
  t.equal(methodAndPath(request({ method: 'POST' })), 'POST /items')
})

t.test('a request costs one, and the bytes of its body where they are known', async t => {
  const bytes = (body: unknown): number | undefined => plainCosts(request({ body }))['content-bytes']
  t.equal(plainCosts(request({}))['requests'], 1)
  t.equal(bytes(undefined), 0)
  t.equal(bytes(null), 0)
  t.equal(bytes('josé'), 5)
  t.equal(bytes(new Uint8Array(7)), 7)
  t.equal(bytes(new ArrayBuffer(8)), 8)
  t.equal(bytes(new Blob(['abc'])), 3)
  t.equal(bytes(new FormData()), undefined)
  t.equal(bytes(Readable.from(['abc'])), undefined)
})

t.test('a body can be sent again unless it is used up by the first time', async t => {
  for (const body of [
    undefined,
    null,
    '',
    'abc',
    new Uint8Array(1),
    Buffer.from('a'),
    new ArrayBuffer(1),
    new DataView(new ArrayBuffer(1)),
    new Blob(['a']),
    new FormData(),
    new URLSearchParams('a=b')
  ]) {
    t.equal(isReplayable(body), true, Object.prototype.toString.call(body))
  }
  for (const body of [new ReadableStream(), Readable.from(['a']), [1].values(), {}]) {
    t.equal(isReplayable(body), false, Object.prototype.toString.call(body))
  }
})
