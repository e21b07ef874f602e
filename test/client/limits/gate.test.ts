import t from 'tap'
import { Gate } from '../../../src/client/limits/gate.js'
import { ASK } from '../../../src/client/limits/limit.js'
import { Conversation, exact } from './kit.js'

const gate = (): Conversation<Gate> => new Conversation(new Gate('unknown', exact))

t.test('one request asks, and the others wait for what comes of it', async t => {
  const talk = gate()
  t.equal(talk.wait(), 0)
  const first = talk.send()
  t.equal(talk.wait(), ASK)
  talk.serve(first)
  t.equal(talk.wait(), 0)
  talk.send()
  t.equal(talk.wait(), 0)
})

t.test('one that is lost or not counted lets the next one ask', async t => {
  const talk = gate()
  talk.limit.lost(talk.send())
  t.equal(talk.wait(), 0)
  talk.limit.returned(talk.send())
  t.equal(talk.wait(), 0)
  talk.send()
  t.equal(talk.wait(), ASK)
})

t.test('a refusal shuts it for the wait that is asked for, then one request asks again', async t => {
  const talk = gate()
  talk.exchange()
  const early = talk.send()
  t.equal(talk.refuse(7000), 7000)
  t.equal(talk.wait(), 7000)
  talk.serve(early)
  t.equal(talk.wait(), 7000, 'one sent before opens nothing')
  talk.now += 7000
  t.equal(talk.wait(), 0)
  const asking = talk.send()
  t.equal(talk.wait(), ASK)
  talk.serve(asking)
  t.equal(talk.wait(), 0)
})

t.test('without a wait it backs off, longer each time', async t => {
  const talk = gate()
  for (const wait of [2000, 4000, 8000, 15_000, 15_000]) {
    t.equal(talk.refuse(), wait)
    talk.now += wait
  }
  talk.exchange()
  t.equal(talk.refuse(), 2000)
})

t.test('it holds for the longest of the refusals that come together', async t => {
  const talk = gate()
  talk.exchange()
  const [one, other] = [talk.send(), talk.send()]
  talk.limit.refused(one, { available: undefined, wait: 9000, now: 0 })
  talk.limit.refused(other, { available: undefined, wait: 3000, now: 0 })
  t.equal(talk.wait(), 9000)
})

t.test('nothing is known to be spent of it', async t => {
  t.equal(gate().limit.share(), 0)
})
