import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { QuotaOptions } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory.js'
import { compilePolicy } from '../../src/policy.js'
import { Clock, LaterStore } from '../plugin/kit.js'
import { client, get, inflight, listen, until } from './kit.js'

type Policies = QuotaOptions['policies']

t.test('a place stays taken for as long as the request lives, however short the lease', async t => {
  const second = { answered: false }
  const { app, port, held, untilHeld } = await listen(t, {
    options: { policies: { inflight: { ...inflight, quota: 1, holdFor: '300ms' } } },
    routes: app => {
      app.get('/second', async () => {
        await sleep(1000)
        second.answered = true
        return 'done'
      })
    }
  })
  const { received, leave } = client(port, get('/second'))
  await untilHeld(1)
  while (!second.answered) {
    const places = await held()
    const { statusCode } = await app.inject('/')
    if (second.answered) break
    t.strictSame([places, statusCode], [1, 429])
    await sleep(90)
  }
  await received('done')
  await untilHeld(0)
  leave()
})

t.test('the place of a holder that has died is free after holdFor', async t => {
  const clock = new Clock()
  const store = memoryStore()
  store.useClock(clock.read)
  t.teardown(() => store.close())
  const policy = compilePolicy('inflight', { ...inflight, quota: 1, holdFor: '30s' }, [])
  const place = { partition: 'x', policy }
  const [dead] = store.consume([{ ...place, units: 1 }]).limits
  clock.pass(29_999)
  t.equal(store.consume([{ ...place, units: 1 }]).limits[0]!.allowed, false)
  clock.pass(1)
  const [heir] = store.consume([{ ...place, units: 1 }]).limits
  t.equal(heir!.allowed, true)
  store.settle([{ ...place, charges: dead!.charges, actual: 0 }])
  t.equal(store.peek([place]).limits[0]!.remaining, 0, 'the dead takes nothing from its heir')
})

t.test('a request that lives takes its place again after the process has stood still', async t => {
  for (const later of [false, true]) {
    const clock = new Clock()
    const policies: Policies = { inflight: { ...inflight, holdFor: '60ms' } }
    const { port, held, untilHeld } = await listen(t, {
      options: later ? { policies, store: new LaterStore(clock.read) } : { policies, clock: clock.read },
      routes: app => {
        app.get('/slow', async () => new Promise(() => {}))
      }
    })
    const clients = [client(port, get('/slow')), client(port, get('/slow'))]
    await untilHeld(2)
    clock.pass(60_000)
    await untilHeld(2)
    await sleep(60)
    t.equal(await held(), 2)
    for (const { leave } of clients) leave()
    await untilHeld(0)
  }
})

t.test('of a place that was taken in parts, only the part that has ended is taken again', async t => {
  const clock = new Clock()
  const { port, held, untilHeld } = await listen(t, {
    options: { policies: { inflight: { ...inflight, holdFor: '300ms' } }, clock: clock.read },
    routes: app => {
      app.get('/slow', async request => {
        clock.pass(200)
        await request.quota.reserve('inflight', 2)
        clock.pass(150) // the first part has ended, the second has not
        return new Promise(() => {})
      })
    }
  })
  const { leave } = client(port, get('/slow'))
  await untilHeld(2)
  await untilHeld(3)
  await sleep(250)
  t.equal(await held(), 3)
  leave()
  await untilHeld(0)
})

t.test('what a store cannot renew now, it is asked for again', async t => {
  const clock = new Clock()
  const store = new LaterStore(clock.read)
  const renew = store.renew.bind(store)
  const settle = store.settle.bind(store)
  const { port, held, untilHeld } = await listen(t, {
    options: { policies: { inflight: { ...inflight, holdFor: '60ms' } }, store },
    routes: app => {
      app.get('/slow', async () => new Promise(() => {}))
    }
  })
  const { leave } = client(port, get('/slow'))
  await untilHeld(1)
  let asked = 0
  store.renew = async leases => leases.map(() => [])
  store.settle = async () => {
    asked++
    return { limits: [], source: 'open' }
  }
  clock.pass(60_000)
  await until(() => asked > 1)
  t.equal(await held(), 0)
  store.renew = renew
  store.settle = settle
  await untilHeld(1)
  leave()
  await untilHeld(0)
})

t.test('a release waits for the renewal under way', async t => {
  const clock = new Clock()
  const store = new LaterStore(clock.read)
  const renew = store.renew.bind(store)
  const { app, port, held, untilHeld } = await listen(t, {
    options: { policies: { inflight: { ...inflight, holdFor: '60ms' } }, store },
    routes: app => {
      app.get('/slow', async () => new Promise(() => {}))
      app.get('/early', async request => {
        await asked(2)
        await request.quota.release('inflight')
        return held()
      })
    }
  })
  let calls = 0
  const asked = async (n: number): Promise<void> => until(() => calls >= n)
  store.renew = async leases => {
    calls++
    clock.pass(1) // a renewed lease ends at another time
    const renewed = await renew(leases)
    await sleep(80) // longer than the time to the next renewal
    return renewed
  }
  const { leave } = client(port, get('/slow'))
  await asked(1)
  await sleep(45) // over the next renewal
  t.equal(calls, 1, 'one after the other')
  leave()
  await untilHeld(0)
  t.equal((await app.inject('/early')).body, '0')
})

t.test('what a store throws when nobody asks is logged, once, and the process lives', async t => {
  const store = new LaterStore(() => Math.floor(performance.now()))
  const { port, untilHeld, errors } = await listen(t, {
    options: { policies: { inflight: { ...inflight, holdFor: '60ms' } }, store },
    routes: app => {
      app.get('/slow', async () => new Promise(() => {}))
    }
  })
  let failed = 0
  const fail = async (): Promise<never> => {
    failed++
    throw new Error('out of order')
  }
  const { leave } = client(port, get('/slow'))
  await untilHeld(1)
  store.renew = fail
  await until(() => failed > 2)
  store.settle = fail
  failed = 0
  leave()
  await until(() => failed > 0)
  await untilHeld(0) // it has ended by itself
  t.strictSame(errors, ['out of order'])
})

t.test('requests without leases set no timer', async t => {
  const { app } = await listen(t, {
    options: { policies: { any: '5/1m' } },
    routes: app => {
      app.get('/none', { config: { quota: false } }, async request => request.quota.outcome)
    }
  })
  t.equal((await app.inject('/none')).body, 'none')
})
