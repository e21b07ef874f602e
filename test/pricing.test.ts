import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { PolicyOptions } from '../src/index.js'
import { OperatorFaults } from '../src/operator.js'
import type { Parts } from '../src/partition.js'
import { compilePolicy } from '../src/policy.js'
import { price } from '../src/pricing.js'

interface Priced {
  readonly bill: ReturnType<typeof price>
  readonly faults: readonly unknown[]
}

const parts: Parts = { address: 'ip:192.0.2.1', route: 'route:GET /', identities: [] }

/** The bill of a request for these policies. */
function priced(policies: Readonly<Record<string, Partial<PolicyOptions>>>, request: object = {}): Priced {
  const faults: unknown[] = []
  const log = { error: ({ option }: { option: unknown }) => faults.push(option) }
  const shares = Object.entries(policies).map(([name, options]) => {
    const policy = compilePolicy(name, { quota: 9, window: '1m', ...options }, [])
    return { policy, cost: policy.cost }
  })
  const raw = { httpVersionMajor: 1 }
  const whole = { headers: {}, raw, log, ...request } as unknown as FastifyRequest
  return { bill: price(new OperatorFaults(), whole, parts, shares), faults }
}

const units = (bill: Awaited<Priced['bill']>): unknown =>
  bill.charges.map(({ policy, partition, units }) => [policy.name, policy.quota, partition, units])

t.test('what is known at once is no promise, functions and plans included', async t => {
  const { bill } = priced({
    constant: { cost: 2 },
    computed: { cost: () => 3 },
    plan: { quota: () => 20, cost: () => 4 },
    bytes: { unit: 'content-bytes' }
  })
  t.notOk(bill instanceof Promise)
  t.strictSame(units(await bill), [
    ['constant', 9, 'ip:192.0.2.1', 2],
    ['computed', 9, 'ip:192.0.2.1', 3],
    ['plan', 20, 'ip:192.0.2.1', 4],
    ['bytes', 9, 'ip:192.0.2.1', 0]
  ])
})

t.test('what is known later is waited for, in the order of the policies', async t => {
  const { bill } = priced({
    slow: { cost: () => new Promise(resolve => setImmediate(resolve, 2)) },
    now: { cost: 1 },
    plan: { quota: async () => 20, cost: async () => 3 }
  })
  t.ok(bill instanceof Promise)
  t.strictSame(units(await bill), [
    ['slow', 9, 'ip:192.0.2.1', 2],
    ['now', 9, 'ip:192.0.2.1', 1],
    ['plan', 20, 'ip:192.0.2.1', 3]
  ])
})

t.test('a thenable that is no promise is as good as one', async t => {
  const thenable = (value: number): Promise<number> =>
    // oxlint-disable-next-line unicorn/no-thenable -- as query builders are
    ({ then: (use: (value: number) => unknown) => void use(value) }) as unknown as Promise<number>
  const { bill, faults } = priced({ plan: { quota: () => thenable(20), cost: () => thenable(3) } })
  t.strictSame(units(await bill), [['plan', 20, 'ip:192.0.2.1', 3]])
  t.strictSame(faults, [])
})

t.test('whoever is exempt costs nothing, and nobody is asked what', async t => {
  const never = (): never => t.fail('asked') as never
  const { bill } = priced({
    off: { exempt: () => true, cost: never, quota: never },
    on: { exempt: () => false }
  })
  t.match(await bill, { exempt: ['off'], failed: undefined, charges: [{ units: 1 }] })
})

t.test('one policy that fails closed is enough, and one that fails open is left out', async t => {
  const failing: Partial<PolicyOptions> = { quota: () => NaN }
  for (const [policies, failed, charged] of [
    [{ any: {} }, undefined, 1],
    [{ any: {}, open: { ...failing, onStoreFailure: 'open' } }, 'open', 1],
    [{ trial: { ...failing, mode: 'shadow' } }, undefined, 0],
    [{ any: {}, local: { ...failing, onStoreFailure: 'local' } }, 'closed', 1],
    [{ open: { ...failing, onStoreFailure: 'open' }, closed: failing }, 'closed', 0]
  ] as const) {
    const bill = await priced(policies).bill
    t.strictSame([bill.failed, bill.charges.length], [failed, charged])
  }
})

t.test('a body costs the length it is sent with; one of unknown length is counted as it arrives', async t => {
  for (const [request, cost, metered] of [
    [{ headers: { 'content-length': '12' } }, 12, 0],
    [{ headers: { 'content-length': '0' } }, 0, 0],
    [{}, 0, 0],
    [{ headers: { 'transfer-encoding': 'chunked' } }, 0, 1],
    [{ headers: { 'transfer-encoding': 'chunked', 'content-length': '5' } }, 0, 1],
    [{ raw: { httpVersionMajor: 2 } }, 0, 1],
    [{ raw: { httpVersionMajor: 2 }, headers: { 'content-length': '7' } }, 7, 0]
  ] as const) {
    const bill = await priced({ bytes: { unit: 'content-bytes' } }, request).bill
    t.strictSame([bill.charges[0]?.units, bill.metered.length], [cost, metered], JSON.stringify(request))
  }
})

t.test('a cost of its own takes the place of the length of the body', async t => {
  const request = { headers: { 'transfer-encoding': 'chunked' } }
  const { bill } = priced({ bytes: { unit: 'content-bytes', cost: 7 } }, request)
  t.match(await bill, { charges: [{ units: 7 }], metered: [] })
})
