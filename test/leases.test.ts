import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyReply, FastifyRequest } from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { Ending } from '../src/ending.js'
import { Leases } from '../src/leases.js'
import type { Life, WhenAlive } from '../src/leases.js'
import { Ledger } from '../src/ledger.js'
import type { Account } from '../src/ledger.js'
import { compilePolicy } from '../src/policy.js'
import type { QuotaPolicy } from '../src/policy.js'
import { memoryStore } from '../src/stores/memory.js'
import type { Store } from '../src/store.js'
import { until } from './concurrency/kit.js'

class Raw extends EventEmitter {
  destroyed = false

  destroy(): void {
    this.destroyed = true // without an event
  }
}

interface Services {
  readonly leases: Leases
  readonly store: Store
  /** Calls of the store's `renew`. */
  readonly renewals: () => number
  readonly held: (policy: QuotaPolicy) => number
  readonly take: (...policies: readonly QuotaPolicy[]) => {
    readonly ledger: Ledger
    readonly accounts: readonly Account[]
  }
}

function services(t: Test, ...policies: readonly QuotaPolicy[]): Services {
  const store = memoryStore()
  let renewals = 0
  const renew = store.renew.bind(store)
  store.renew = leases => {
    renewals++
    return renew(leases)
  }
  const leases = new Leases(store, error => t.fail(String(error)))
  for (const policy of policies) leases.expect(policy)
  t.teardown(() => {
    leases.close()
    store.close()
  })
  return {
    leases,
    store,
    renewals: () => renewals,
    held: policy => policy.quota - store.peek([{ partition: 'x', policy }]).limits[0]!.remaining,
    take: (...policies) => {
      const ledger = new Ledger(store)
      const charges = policies.map(policy => ({ partition: 'x', policy, units: 1 }))
      return { ledger, accounts: ledger.open(charges, store.consume(charges), 'stage') }
    }
  }
}

function life(connection: Raw = new Raw()): Life & { readonly raw: Raw } {
  const raw = new Raw()
  const reply = { raw } as unknown as FastifyReply
  return {
    raw,
    reply,
    ending: new Ending({ raw: { socket: connection } } as unknown as FastifyRequest, reply)
  }
}

const alive =
  (life: Life): WhenAlive =>
  told =>
    told(life)

const policy = (options: object = {}): QuotaPolicy =>
  compilePolicy('inflight', { quota: 5, algorithm: 'concurrency', holdFor: '60ms', ...options }, [])

t.test('leases are renewed three times before the shortest ends', async t => {
  const short = policy({ holdFor: '90ms' })
  const { leases, renewals, take } = services(t)
  for (const one of [policy(), short, policy({ holdFor: '1h' })]) leases.expect(one)
  const { ledger, accounts } = take(short)
  leases.hold(ledger, accounts, alive(life()))
  await until(() => renewals() > 2)
  leases.close()
  const before = renewals()
  await sleep(60)
  t.equal(renewals(), before, 'not when it is closed')
})

t.test('only leases are held, and each once', async t => {
  const lease = policy()
  const window = compilePolicy('window', '5/1m', [])
  const { leases, take, held } = services(t, lease)
  const first = life()
  const second = life()
  const { ledger, accounts } = take(lease, window)
  leases.hold(ledger, accounts, alive(first))
  t.strictSame(
    accounts.map(account => account.held),
    [1, 0]
  )
  leases.hold(ledger, accounts, alive(second))
  second.raw.emit('close')
  t.equal(held(lease), 1)
  first.raw.emit('close')
  t.equal(held(lease), 0)
  t.equal(held(window), 1)
  t.strictSame(
    accounts.map(account => account.closed),
    ['given back', false]
  )
})

t.test('what is held for a request that is over is released at once', async t => {
  const lease = policy()
  const { leases, take, held } = services(t, lease)
  const over = life()
  over.raw.destroyed = true
  const { ledger, accounts } = take(lease)
  leases.hold(ledger, accounts, alive(over))
  t.equal(held(lease), 0)
})

t.test('an end without an event is seen at the next renewal', async t => {
  const lease = policy()
  const { leases, take, held } = services(t, lease)
  const silent = life()
  const { ledger, accounts } = take(lease)
  leases.hold(ledger, accounts, alive(silent))
  silent.raw.destroyed = true
  t.equal(held(lease), 1)
  await until(() => held(lease) === 0)
})

t.test('what was released is not renewed, and what is left is', async t => {
  const one = policy()
  const other = compilePolicy('other', { quota: 5, algorithm: 'concurrency', holdFor: '60ms' }, [])
  const { leases, take, held, renewals } = services(t, one)
  const { ledger, accounts } = take(one, other)
  leases.hold(ledger, accounts, alive(life()))
  await ledger.release(accounts.slice(0, 1))
  await sleep(150)
  t.strictSame([held(one), held(other)], [0, 1])
  await ledger.release(accounts)
  await sleep(30)
  const before = renewals()
  await sleep(60)
  t.equal(renewals(), before)
})

t.test('maxHold is the shortest of a request’s, and ends its connection', async t => {
  const patient = policy({ maxHold: '1h' })
  const hasty = compilePolicy('hasty', { quota: 5, algorithm: 'concurrency', maxHold: '30ms' }, [])
  const { leases, take, held } = services(t, patient, hasty)
  const long = life()
  const short = life()
  const first = take(patient)
  leases.hold(first.ledger, first.accounts, alive(long))
  const second = take(patient, hasty)
  leases.hold(second.ledger, second.accounts, alive(short))
  t.strictSame([held(patient), held(hasty)], [2, 1])
  await until(() => short.raw.destroyed)
  t.strictSame([held(patient), held(hasty)], [1, 0], 'released, though there was no event')
  t.equal(long.raw.destroyed, false)
})

t.test(
  'the end of a request is that of others on its connection, and nothing of theirs is taken again',
  async t => {
    const patient = policy()
    const hasty = compilePolicy('hasty', { quota: 5, algorithm: 'concurrency', maxHold: '30ms' }, [])
    const { leases, take, held } = services(t, patient, hasty)
    const connection = new Raw()
    const first = life(connection)
    const second = life(connection)
    first.raw.destroy = () => connection.destroy()
    for (const [request, lease] of [
      [second, patient],
      [first, hasty],
      [second, patient]
    ] as const) {
      const { ledger, accounts } = take(lease)
      leases.hold(ledger, accounts, alive(request))
    }
    t.strictSame([held(patient), held(hasty)], [2, 1])
    await until(() => connection.destroyed)
    t.strictSame([held(patient), held(hasty)], [0, 0])
  }
)

t.test('without a request, maxHold releases what is held', async t => {
  const lease = policy({ maxHold: '30ms' })
  const { leases, take, held } = services(t, lease)
  const { ledger, accounts } = take(lease)
  leases.hold(ledger, accounts, undefined)
  t.equal(held(lease), 1)
  await until(() => held(lease) === 0)
  t.equal(accounts[0]!.closed, 'given back')
})

t.test('without a request, a lease is renewed until it is released', async t => {
  const lease = policy()
  const { leases, take, held } = services(t, lease)
  const { ledger, accounts } = take(lease)
  leases.hold(ledger, accounts, undefined)
  await sleep(200)
  t.equal(held(lease), 1)
  await ledger.release(accounts)
  t.equal(held(lease), 0)
})
