import t from 'tap'
import { compilePolicy } from '../../../src/policy.js'
import type { QuotaPolicy } from '../../../src/policy.js'
import {
  chargeCommand,
  decode,
  limitsOf,
  receiptsOf,
  renewCommand,
  resetCommand,
  settleCommand
} from '../../../src/stores/redis/command.js'
import { Plans } from '../../../src/stores/redis/plans.js'
import { doubles } from './kit.js'

const burst = compilePolicy('burst', { quota: 5, window: '10s' }, [])
const bucket = compilePolicy('bucket', { quota: 7, window: '1h', algorithm: 'token-bucket' }, [])
const slots = compilePolicy('slots', { quota: 3, algorithm: 'concurrency', holdFor: '20s' }, [])
const shadow = compilePolicy('shadow', { quota: 9, window: '1m', mode: 'shadow' }, [])
const T0 = 1_753_900_000_123
const encoding = { keyOf: (partition: string) => `key of ${partition}`, fields: 4 }

/** What the script reads of a policy: its field, its algorithm, and five parameters. */
const words = ({ field, algorithm, params }: QuotaPolicy): readonly string[] => [
  field,
  algorithm.name,
  ...[0, 1, 2, 3, 4].map(i => String(params[i] ?? 0))
]

t.test('a charge says where, by which policy, how much, and what may be bought ahead', async t => {
  const command = chargeCommand(encoding, 'charge', [
    { partition: 'a', policy: burst, units: 2 },
    { partition: 'b', policy: shadow, units: 0 },
    { partition: 'a', policy: bucket, units: 1, ahead: 10, shares: 4 }
  ])
  t.strictSame(command, {
    operation: 'charge',
    keys: ['key of a', 'key of b'],
    fields: 4,
    patient: false,
    numbers: 21,
    items: [
      ['1', ...words(burst), '2', '0', '0', '1'],
      ['2', ...words(shadow), '0', '1', '0', '1'],
      ['1', ...words(bucket), '1', '0', '10', '4']
    ].flat()
  })
  t.match(chargeCommand(encoding, 'try', []), { operation: 'try', keys: [], items: [] })
})

t.test('a settlement says what it turned out to be, and which receipts there are', async t => {
  const charges = [
    { at: 1_753_900_000_123, units: 999_999_999_999_999 },
    { at: 1_753_900_000_124, units: 1 }
  ]
  const command = settleCommand(encoding, [
    { partition: 'a', policy: burst, charges, actual: 3 },
    { partition: 'b', policy: slots, charges: [], actual: 0 }
  ])
  t.strictSame(
    command.items,
    [
      ['1', ...words(burst), '3', '2', '1753900000123', '999999999999999', '1753900000124', '1'],
      ['2', ...words(slots), '0', '0']
    ].flat()
  )
  t.match(command, { operation: 'settle', keys: ['key of a', 'key of b'] })
})

t.test('giving places back is worth doing late, and nothing else is', async t => {
  const settles = (...actual: readonly number[]): boolean =>
    settleCommand(
      encoding,
      actual.map(actual => ({ partition: 'a', policy: slots, charges: [{ at: 1, units: 2 }], actual }))
    ).patient
  t.strictSame([settles(0), settles(1), settles(0, 0)], [true, true, true])
  t.strictSame([settles(2), settles(3), settles(0, 3)], [false, false, false])
  const charges = [{ at: 1, units: 2 }]
  t.match(settleCommand(encoding, [{ partition: 'a', policy: burst, charges, actual: 0 }]), {
    patient: false
  })
  t.match(renewCommand(encoding, [{ partition: 'a', policy: slots, charges }]), { patient: false })
})

t.test('a renewal has receipts, and a reset has fields', async t => {
  const charges = [{ at: 7, units: 1 }]
  const renewal = renewCommand(encoding, [{ partition: 'a', policy: slots, charges }])
  t.match(renewal, { operation: 'renew', items: ['1', ...words(slots), '1', '7', '1'] })
  const reset = resetCommand(encoding, [
    { partition: 'a', policy: slots },
    { partition: 'a', policy: burst }
  ])
  t.match(reset, { operation: 'reset', keys: ['key of a'], items: ['1', slots.field, '1', burst.field] })
})

t.test('a quota of a plan has words of its own', async t => {
  const item = (policy: QuotaPolicy): readonly string[] =>
    chargeCommand(encoding, 'charge', [{ partition: 'a', policy, units: 1 }]).items
  const plan = compilePolicy('plan', { quota: () => 1, window: '10s' }, [])
  t.strictSame(item(plan.withQuota(5)), ['1', ...words(plan.withQuota(5)), '1', '0', '0', '1'])
  t.not(item(plan.withQuota(6))[3], item(plan.withQuota(5))[3])
  t.equal(item(plan.withQuota(6))[1], item(plan.withQuota(5))[1], 'and the same field')
})

t.test('a reply is whether it came too late, the time there, and numbers', async t => {
  t.strictSame(decode(doubles(0, T0), 0), { now: T0, fenced: false, numbers: [] })
  t.strictSame(decode(doubles(1, T0), 7), { now: T0, fenced: true, numbers: [] })
  t.strictSame(decode(doubles(0, 1, 2 ** 53 - 1, -1), 2), {
    now: 1,
    fenced: false,
    numbers: [2 ** 53 - 1, -1]
  })
})

t.test('what the script cannot have said is no reply', async t => {
  const nonsense = [undefined, null, 7, [], '5 0', doubles(0, 5).toString('latin1'), new Float64Array([0, 5])]
  for (const answer of nonsense) t.equal(decode(answer, 0), undefined, String(answer))
  const strange = [[], [0], [2, 5], [-1, 5], [0.5, 5], [NaN, 5], [0, NaN], [0, 1.5], [0, -5], [0, Infinity]]
  for (const numbers of strange) t.equal(decode(doubles(...numbers), 0), undefined, String(numbers))
  for (const bytes of [doubles(0, 5).subarray(0, 15), Buffer.concat([doubles(0, 5), Buffer.from('\0')])])
    t.equal(decode(bytes, 0), undefined, `${bytes.length} bytes`)
  const others = [
    [0, 5],
    [0, 5, 1],
    [0, 5, 1, 2, 3],
    [1, 5, 1, 2],
    [0, 5, 1, 2 ** 53],
    [0, 5, 0.5, 1]
  ]
  for (const numbers of others)
    t.equal(decode(doubles(...numbers), 2), undefined, `${numbers.join(' ')}, where two numbers are expected`)
})

t.test('the numbers of a charge are seven, the last two its receipt', async t => {
  const reply = decode(doubles(0, 5, 1, 3, 10_000, 0, 0, 5, 2, 0, 0, 0, -2, 0, 25, 0), 14)!
  const charges = [
    { partition: 'a', policy: burst, units: 2 },
    { partition: 'a', policy: slots, units: 1 }
  ]
  t.strictSame(limitsOf(charges, reply), [
    {
      policy: burst,
      units: 2,
      allowed: true,
      remaining: 3,
      effectiveWindow: 10_000,
      retryAfter: 0,
      delay: 0,
      charges: [{ at: 5, units: 2 }]
    },
    {
      policy: slots,
      units: 1,
      allowed: false,
      remaining: 0,
      effectiveWindow: 0,
      retryAfter: -2,
      delay: 0,
      charges: []
    }
  ])
})

t.test('what has ended is renewed for no units, which is no receipt', async t => {
  const lease = { partition: 'a', policy: slots }
  const one = { at: 1, units: 1 }
  const leases = [
    { ...lease, charges: [one, one] },
    { ...lease, charges: [] },
    { ...lease, charges: [one] }
  ]
  t.strictSame(receiptsOf(leases, decode(doubles(0, 5, 25, 0, 25, 2, 25, 1), 6)!), [
    [{ at: 25, units: 2 }],
    [],
    [{ at: 25, units: 1 }]
  ])
})

t.test('a charge of a plan says its units only, and parameters that are not always the same', async t => {
  const plan = compilePolicy('plan', { quota: () => 1, window: '10s' }, [])
  const planned = { ...encoding, fields: 0, plans: new Plans('server') }
  const charges = [
    { partition: 'a', policy: burst, units: 2 },
    { partition: 'b', policy: plan.withQuota(5), units: 1 },
    { partition: 'a', policy: shadow, units: 0, ahead: 0, shares: 4 }
  ]
  const command = chargeCommand(planned, 'charge', charges)
  t.match(command, {
    operation: 'charge',
    keys: ['key of a', 'key of b'],
    fields: 0,
    items: ['2', '1', '5', '10000', '10', '0'],
    patient: false,
    numbers: 21
  })
  t.equal(command.plan?.keys, 2)
  t.equal(chargeCommand(planned, 'charge', charges).plan, command.plan, 'it is the same each time')
})

t.test('what is more than charges is for the script for everything', async t => {
  const planned = { ...encoding, fields: 0, plans: new Plans('server') }
  const charge = { partition: 'a', policy: burst, units: 1 }
  t.equal(chargeCommand(planned, 'try', [charge]).plan, undefined)
  t.equal(chargeCommand({ ...planned, fields: 4 }, 'charge', [charge]).plan, undefined, 'a sweep')
  t.equal(chargeCommand(planned, 'charge', [{ ...charge, ahead: 1 }]).plan, undefined, 'a batch')
  t.equal(chargeCommand(planned, 'charge', [charge, charge]).plan, undefined, 'one policy twice')
  t.equal(chargeCommand(encoding, 'charge', [charge]).plan, undefined)
})
