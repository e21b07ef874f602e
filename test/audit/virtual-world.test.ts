import Fastify from 'fastify'
import t from 'tap'
import { virtualWorld } from '../../src/audit/virtual-world.js'
import { USUAL } from './kit.js'

t.test('the clock stands still while an app answers, and moves when all is answered', async t => {
  const clock = { now: 1000 }
  const app = Fastify()
  const times: number[] = []
  app.post('/items', async (request, reply) => {
    await new Promise(resolve => setImmediate(resolve))
    times.push(clock.now)
    return reply
      .header('set-cookie', ['a=1', 'b=2'])
      .send(`${request.headers['x-key']?.toString()} ${JSON.stringify(request.body)}`)
  })
  const world = virtualWorld(app, clock, undefined)
  const headers = { 'x-key': 'k', 'content-type': 'application/json' }
  const pending = world.send({ ...USUAL, method: 'POST', headers, body: '{"a":1}' })
  await world.warm(10)
  await world.until(2000.4)
  t.match(await pending, {
    sent: 1000,
    arrived: 1000,
    status: 200,
    fields: { 'set-cookie': 'a=1, b=2', 'content-length': '9' },
    body: 'k {"a":1}',
    failure: undefined
  })
  t.strictSame([times, world.now(), clock.now], [[1000], 2000, 2000])
  await world.until(1500)
  t.equal(clock.now, 2000, 'it never goes back')
  t.strictSame([world.precision, world.tolerance(1000), await world.close()], [1, 0, undefined])
})

t.test('an app that cannot answer is a failure', async t => {
  const world = virtualWorld({ inject: () => Promise.reject(new Error('closed')) }, { now: 0 }, undefined)
  t.match(await world.send(USUAL), { status: undefined, failure: 'closed' })
})
