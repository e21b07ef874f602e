import t from 'tap'
import { HoldingLimit } from '../../../src/client/limits/holding.js'
import { ASK } from '../../../src/client/limits/limit.js'
import type { Limit } from '../../../src/client/limits/limit.js'
import { Conversation, exact, say } from './kit.js'

const holding = (): Conversation<Limit> => new Conversation(new HoldingLimit(exact))

t.test('places are held until the response is over', async t => {
  const talk = holding()
  const first = talk.send()
  talk.limit.served(first, say({ quota: 2, available: 1 }), 0)
  t.equal(talk.wait(), 0)
  const second = talk.send()
  t.equal(talk.wait(), ASK)
  talk.limit.served(second, say({ quota: 2, available: 0 }), 0)
  t.equal(talk.wait(), ASK)
  talk.limit.ended(first)
  t.equal(talk.wait(), 0)
})

t.test('places of others are not there', async t => {
  const talk = holding()
  const [first, second] = [talk.send(), talk.send()]
  talk.limit.served(first, say({ quota: 10, available: 1 }), 0)
  t.equal(talk.wait(), 0)
  const third = talk.send()
  t.equal(talk.wait(), ASK, 'seven are held elsewhere')
  talk.limit.ended(first)
  talk.serve(third, 8)
  talk.serve(second, 9)
  t.equal(talk.wait(), 0)
})

t.test('one place is always tried for', async t => {
  const talk = holding()
  const first = talk.send()
  talk.limit.served(first, say({ quota: 0, available: 0 }), 0)
  talk.limit.ended(first)
  t.equal(talk.wait(), 0)
})

t.test('after a refusal the next place is one of its own that comes free', async t => {
  const talk = holding()
  const first = talk.send()
  t.equal(talk.refuse(), 0)
  t.equal(talk.wait(), ASK)
  talk.serve(first)
  t.equal(talk.wait(), 0)
})

t.test('where others hold all places only time helps', async t => {
  const talk = holding()
  for (const wait of [1000, 2000, 4000, 8000]) {
    t.equal(talk.refuse(), wait)
    t.equal(talk.wait(), wait)
    talk.now += wait
    t.equal(talk.wait(), 0)
  }
})

t.test('a wait that is asked for is kept', async t => {
  const talk = holding()
  const first = talk.send()
  t.equal(talk.refuse(5000), 5000)
  talk.serve(first)
  t.equal(talk.wait(), 5000)
})

t.test('where no number is told one more place is tried each time round', async t => {
  const talk = holding()
  talk.exchange()
  talk.refuse()
  talk.now += 1000
  const places = (): number => {
    let held = 0
    while (talk.wait() === 0 && held < 100) {
      talk.send()
      held++
    }
    return held
  }
  talk.exchange()
  t.equal(places(), 2)
})

t.test('a request that failed or was not counted holds nothing', async t => {
  const talk = holding()
  const first = talk.send()
  talk.limit.served(first, say({ quota: 1, available: 0 }), 0)
  talk.limit.ended(first)
  talk.limit.lost(talk.send(), 0)
  t.equal(talk.wait(), 0)
  talk.limit.returned(talk.send())
  t.equal(talk.wait(), 0)
})

t.test('its share is that of the places held here', async t => {
  const talk = holding()
  t.equal(talk.limit.share(), 0)
  const first = talk.send()
  talk.limit.served(first, say({ quota: 4, available: 3 }), 0)
  t.equal(talk.limit.share(), 0.25)
})
