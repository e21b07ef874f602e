import t from 'tap'
import { ASK } from '../../../src/client/limits/limit.js'
import type { Charge } from '../../../src/client/limits/limit.js'
import { say, spending } from './kit.js'

t.test('what is told is spent at once, and then t is waited out', async t => {
  const talk = spending()
  talk.exchange(2, 10)
  t.equal(talk.wait(), 0)
  talk.exchange(1, 10)
  talk.exchange(0, 10)
  t.equal(talk.wait(), 10_000)
  talk.now += 9999
  t.equal(talk.wait(), 1)
  talk.now += 1
  t.equal(talk.wait(), 0)
})

t.test('when t is over nobody expects the whole quota: one request asks', async t => {
  const talk = spending()
  talk.exchange(0, 10)
  talk.now += 10_000
  const asking = talk.send()
  t.equal(talk.wait(), ASK)
  talk.serve(asking, 5, 3)
  t.equal(talk.wait(), 0)
})

t.test('requests on their way count as spent', async t => {
  const talk = spending()
  talk.exchange(2, 10)
  const one = talk.send()
  t.equal(talk.wait(), 0)
  const other = talk.send()
  t.equal(talk.wait(), ASK)
  talk.serve(one, 1, 10)
  talk.serve(other, 0, 10)
  t.equal(talk.wait(), 10_000)
})

t.test(
  'responses may come in any order: what one does not know of the others is not spent twice',
  async t => {
    const talk = spending()
    talk.exchange(5, 10)
    const flights = [talk.send(), talk.send(), talk.send()]
    talk.serve(flights[2]!, 2, 10)
    talk.serve(flights[0]!, 4, 10)
    talk.serve(flights[1]!, 3, 10)
    talk.send()
    t.equal(talk.wait(), 0)
    talk.send()
    t.equal(talk.wait(), ASK)
  }
)

t.test('a slow response that was decided long ago raises nothing', async t => {
  const talk = spending()
  talk.exchange(9, 10)
  const slow = talk.send()
  for (let left = 7; left >= 1; left--) talk.exchange(left, 10)
  talk.serve(slow, 8, 10)
  talk.send()
  t.equal(talk.wait(), ASK)
})

t.test('what others have spent is not there', async t => {
  const talk = spending()
  talk.exchange(9, 10)
  talk.exchange(0, 10)
  t.equal(talk.wait(), 10_000)
})

t.test('what has come back is there', async t => {
  const talk = spending()
  talk.exchange(0, 10)
  talk.now += 10_000
  talk.exchange(9, 1)
  for (let i = 0; i < 4; i++) talk.send()
  t.equal(talk.limit.share(), 0.5)
})

t.test('a request that failed may have been counted, until a response tells', async t => {
  const talk = spending()
  talk.exchange(1, 10)
  talk.limit.lost(talk.send(), talk.now)
  t.equal(talk.wait(), 10_000)
  talk.now += 10_000
  talk.exchange(1, 10)
  t.equal(talk.wait(), 0)
})

t.test('what is on its way may be in what is told, or not', async t => {
  const talk = spending()
  const flights = [talk.send(), talk.send(), talk.send()]
  talk.serve(flights[0]!, 2, 10)
  t.equal(talk.wait(), ASK, 'the other two may be in these 2')
  talk.serve(flights[1]!, 4, 10)
  t.equal(talk.wait(), ASK, 'the third one may be as well')
  talk.serve(flights[2]!, 3, 10)
  t.equal(talk.wait(), 0)
})

t.test('one that another limit has refused is given back', async t => {
  const talk = spending()
  talk.exchange(1, 10)
  const flight = talk.send()
  t.equal(talk.wait(), ASK)
  talk.limit.returned(flight)
  t.equal(talk.wait(), 0)
})

t.test('a request for more than is left waits for the rate of the quota, and small ones pass', async t => {
  const talk = spending({}, { quota: 100, window: 10_000 })
  talk.exchange(20, 2)
  t.equal(talk.wait(20), 0)
  t.equal(talk.wait(50), 3000, '30 more, at 10 a second')
  t.equal(talk.wait(21), 2000, 'but not before t is over')
})

t.test('what costs more than the whole quota is not held back, and spends nothing', async t => {
  const talk = spending()
  talk.exchange(0, 10)
  t.equal(talk.wait(11), 0)
  t.equal(talk.limit.exceededBy(11), true)
  t.equal(talk.limit.exceededBy(10), false)
  talk.send(11)
  t.equal(talk.limit.share(), 1)
  t.equal(talk.wait(0), 0, 'nor is what costs nothing')
})

t.test('a refusal holds for the wait that is asked for, and then one request asks', async t => {
  const talk = spending()
  talk.exchange(3, 10)
  t.equal(talk.refuse(7000, 0), 7000)
  t.equal(talk.wait(), 7000)
  talk.now += 7000
  const asking = talk.send()
  t.equal(talk.wait(), ASK)
  talk.serve(asking, 3, 1)
  t.equal(talk.wait(), 0)
})

t.test('a request that was too big does not hold back small ones', async t => {
  const talk = spending({}, { quota: 1000, window: 60_000 })
  t.equal(talk.refuse(7000, 300, 500), 7000)
  t.equal(talk.wait(300), 0)
  t.equal(talk.wait(301), 7000)
})

t.test('whatever is said to be left, it was less than the refused request costs', async t => {
  const talk = spending({}, { quota: 1000, window: 60_000 })
  talk.refuse(7000, 300, 100)
  t.equal(talk.wait(99), 0)
  t.equal(talk.wait(100), 7000)
  const silent = spending()
  silent.refuse(7000)
  t.equal(silent.wait(), 7000, 'and where nothing is said nothing is left')
})

t.test('a server that refuses again after the wait it asked for is given longer', async t => {
  const talk = spending()
  for (const wait of [1000, 1000, 2000, 4000, 8000, 8000]) {
    t.equal(talk.refuse(1000, 0), wait)
    talk.now += wait
  }
})

t.test('where no time is told it is that of the policy, or a second', async t => {
  const known = spending()
  known.exchange(0)
  t.equal(known.wait(), 10_000)
  const unknown = spending({}, {})
  unknown.exchange(0)
  t.equal(unknown.wait(), 1000)
})

t.test('what the server does not mention any more is not near its end', async t => {
  const talk = spending()
  talk.exchange(0, 10)
  talk.now += 5000
  const flight = talk.send(0)
  talk.limit.served(flight, undefined, talk.now)
  t.equal(talk.wait(), 5000, 'until t is over it may be')
  talk.now += 5000
  talk.serve(talk.send())
  for (let i = 0; i < 100; i++) talk.exchange()
  t.equal(talk.wait(), 0)
})

t.test('who starts slowly sees who else is there', async t => {
  const talk = spending({}, { quota: 100, window: 10_000 })
  const batch = (): readonly Charge[] => {
    const flights: Charge[] = []
    while (talk.wait() === 0) flights.push(talk.send())
    return flights
  }
  let left = 99
  talk.exchange(left, 10)
  for (const expected of [2, 4, 8]) {
    const flights = batch()
    t.equal(flights.length, expected)
    t.equal(talk.wait(), ASK)
    for (const flight of flights) talk.serve(flight, --left, 10)
  }
  talk.refuse(1000, 0)
  talk.now += 1000
  talk.exchange(60, 10)
  t.equal(batch().length, 8, 'and half as many after a refusal')
})

/** Three others spend one unit whenever this client does, until 4 are left. */
function fourOnAKey(seconds: number): ReturnType<typeof spending> {
  const talk = spending({}, { quota: 100, window: 10_000 })
  for (let left = 40; left >= 4; left -= 4) talk.exchange(left, seconds)
  return talk
}

t.test('what others are likely to spend is left to them', async t => {
  const talk = fourOnAKey(10)
  t.equal(talk.wait(), 0)
  talk.exchange(3, 10)
  t.equal(talk.wait(), 0, 'for a long time nobody waits for others who seem to have left')
  const busy = fourOnAKey(1)
  busy.exchange(3, 1)
  t.equal(busy.wait(), 10_000, 'but for a short one, and then for what is its own to come back')
})

t.test('while something is on its way its response is waited for', async t => {
  const talk = fourOnAKey(10)
  const flight = talk.send()
  t.equal(talk.wait(), ASK)
  talk.serve(flight, 0, 1)
  talk.now += 1000
  t.equal(talk.wait(), 9000)
  talk.now += 9000
  t.equal(talk.wait(), 0)
})

t.test('even pacing spreads what is left over the time it is for', async t => {
  const talk = spending({ pacing: 'even' })
  talk.exchange(10, 5)
  t.equal(talk.wait(), 1000)
  talk.now += 1000
  talk.exchange(9, 4)
  t.equal(talk.wait(), 400, 'ten in the four seconds that are left')
  const slow = spending({ pacing: 'even' })
  slow.exchange(1, 60)
  slow.now += 1000
  slow.exchange(1, 60)
  t.equal(slow.wait(), 1000, 'but no slower than the quota itself')
  const unknown = spending({ pacing: 'even' }, {})
  unknown.exchange(5, 10)
  t.equal(unknown.wait(), 0)
  unknown.exchange(4, 10)
  t.equal(unknown.wait(), 2000)
  unknown.now += 2000
  t.equal(unknown.wait(), 0)
})

t.test('even pacing goes on when t is over', async t => {
  const talk = spending({ pacing: 'even' })
  talk.exchange(5, 1)
  talk.now += 5000
  t.equal(talk.wait(), 0)
  talk.send()
  t.equal(talk.wait(), 1000)
})

t.test('headroom leaves a part of the quota to others, in any window', async t => {
  const talk = spending({ headroom: 0.7 })
  for (let left = 9; left >= 3; left--) {
    t.equal(talk.wait(), 0)
    talk.exchange(left, 10)
  }
  t.equal(talk.wait(), 10_000)
  talk.now += 10_000
  t.equal(talk.wait(), 0)
})

t.test('headroom counts what is on its way', async t => {
  const talk = spending({ headroom: 0.2 })
  talk.exchange(9, 10)
  talk.send()
  t.equal(talk.wait(), 10_000)
  const started = spending({ headroom: 0.2 })
  started.send()
  started.send()
  t.equal(started.wait(), ASK)
})

t.test('headroom lets one request pass that costs more than it', async t => {
  const talk = spending({ headroom: 0.5 })
  t.equal(talk.wait(8), 0)
  talk.exchange(2, 10, 8)
  t.equal(talk.wait(), 10_000)
})

t.test('headroom without a window leaves units unspent', async t => {
  const talk = spending({ headroom: 0.7 }, { quota: 10 })
  talk.exchange(4, 10)
  t.equal(talk.wait(), 0)
  talk.exchange(3, 10)
  t.equal(talk.wait(), 10_000)
})

t.test('a policy may change, and what it leaves out stays', async t => {
  const talk = spending()
  talk.limit.declare(say({ quota: 20 }))
  t.equal(talk.limit.exceededBy(20), false)
  talk.limit.declare(say({}))
  t.equal(talk.limit.exceededBy(20), false)
  t.equal(talk.limit.exceededBy(21), true)
})

t.test('its share is what is spent of the quota', async t => {
  const talk = spending()
  t.equal(talk.limit.share(), 0)
  talk.exchange(7, 10)
  t.equal(Math.round(talk.limit.share() * 10), 3)
  t.equal(spending({}, {}).limit.share(), 0)
})
