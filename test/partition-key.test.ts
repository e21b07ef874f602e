import type { FastifyRequest } from 'fastify'
import { parseItem } from 'structured-headers'
import t from 'tap'
import type { Test } from 'tap'
import { partitionKeyText } from '../src/fields.js'
import { OperatorFaults } from '../src/operator.js'
import { createPartitionKey } from '../src/partition-key.js'
import type { KeyOf, PartitionKey } from '../src/partition-key.js'
import { compilePolicy } from '../src/policy.js'
import type { Store } from '../src/store.js'
import { memoryStore } from '../src/stores/memory.js'
import { Keys } from '../src/stores/redis/keys.js'
import { stopProcessTime } from './plugin/kit.js'

const burst = compilePolicy('burst', '10/10s', [])
const daily = compilePolicy('daily', '10/1d', [])

const at =
  (partition: string): (() => string) =>
  () =>
    partition

interface Asked {
  readonly keyOf: KeyOf
  /** The request that the key is for; it keeps what was logged. */
  readonly request: FastifyRequest
  readonly lines: readonly (readonly [{ readonly option: string; readonly err: Error }, string])[]
}

function ask(wanted: PartitionKey, store: Store = memoryStore()): Asked {
  const lines: [{ option: string; err: Error }, string][] = []
  const request = {
    log: { error: (...line: [{ option: string; err: Error }, string]) => lines.push(line) }
  } as unknown as FastifyRequest
  return { keyOf: createPartitionKey(wanted, store, new OperatorFaults())!, request, lines }
}

t.test('false is no key', async t => {
  t.equal(createPartitionKey(false, memoryStore(), new OperatorFaults()), undefined)
})

const SECRET = 'a secret of thirty-two characters'

const labels: Readonly<Record<string, () => Required<Pick<Store, 'label'>>>> = {
  memory: () => memoryStore(),
  redis: () => new Keys(SECRET, 'q1', false)
}

/** A store that has a label alone. */
const storeOf = (of: Pick<Store, 'label'>): Store =>
  ({ label: (text: string) => of.label!(text) }) as unknown as Store

for (const [name, make] of Object.entries(labels)) {
  t.test(`${name}: a hash is 16 bytes, of a partition for a policy always the same`, async t => {
    const { keyOf, request } = ask('hash', storeOf(make()))
    const keys = [burst, daily].flatMap(policy =>
      ['user:42', 'user:43', 'user:4', 'ip:192.0.2.1'].map(partition =>
        keyOf(request, policy, at(partition))!
      )
    )
    for (const key of keys) t.equal(key.length, 16)
    t.equal(new Set(keys.map(key => Buffer.from(key).toString('hex'))).size, 8, 'each has its own')
    t.strictSame(keyOf(request, burst, at('user:42')), keys[0])
    t.strictSame(keyOf(request, compilePolicy('burst', '5/10s', []), at('user:42')), keys[0])
    const longer = compilePolicy('bursts', '10/10s', [])
    t.notSame(keyOf(request, longer, at('user:42')), keyOf(request, burst, at('suser:42')))
  })

  t.test(`${name}: two partitions that differ in a lone surrogate have two hashes`, async t => {
    const { keyOf, request } = ask('hash', storeOf(make()))
    const keys = ['user:\ud800', 'user:\ud801', 'user:\ufffd'].map(at => keyOf(request, burst, () => at)!)
    t.equal(new Set(keys.map(key => Buffer.from(key).toString('hex'))).size, 3)
  })

  t.test(`${name}: a hash is a Byte Sequence in which nothing of the identity is seen`, async t => {
    const { keyOf, request } = ask('hash', storeOf(make()))
    const text = partitionKeyText(keyOf(request, burst, at('user:anna@example.com'))!)
    const [bytes] = parseItem(text.slice(';pk='.length))
    const shown = Buffer.from(bytes as ArrayBuffer)
    t.equal(shown.length, 16)
    for (const part of ['anna', 'user', 'burst', 'example']) {
      t.notOk(shown.includes(part))
      t.notOk(shown.includes(Buffer.from(part, 'utf16le')))
    }
  })

  t.test(`${name}: nobody has no hash`, async t => {
    const { keyOf, request } = ask('hash', storeOf(make()))
    t.equal(
      keyOf(request, burst, () => undefined),
      undefined
    )
  })
}

t.test('the secret of memory is its own', async t => {
  t.notSame(memoryStore().label('a'), memoryStore().label('a'))
})

t.test('the secret of Redis makes the same hash everywhere, which is no part of a key', async t => {
  const keys = new Keys(SECRET, 'q1', false)
  t.strictSame(new Keys(Buffer.from(SECRET), 'other', true).label('a'), keys.label('a'))
  t.notSame(new Keys(`${SECRET}.`, 'q1', false).label('a'), keys.label('a'))
  const label = Buffer.from(keys.label('a')).toString('base64url')
  t.notOk(keys.of('a').includes(label.slice(0, 8)))
})

t.test('a hash needs a store that can make one', async t => {
  t.throws(() => ask('hash', {} as Store), {
    code: 'FST_QUOTA_OPTION',
    message: "fastify-quota: partitionKey 'hash' needs a store with the method label"
  })
  t.doesNotThrow(() => ask(() => 'a', {} as Store))
})

t.test('a function of the request and the policy makes a label: text, bytes or none', async t => {
  const calls: unknown[] = []
  let label: string | Uint8Array | undefined | null
  const { keyOf, request, lines } = ask((...parameters) => {
    calls.push(parameters)
    return label as string
  })
  const whose = (): never => t.fail('nobody needs to know the partition') as never
  const cases: readonly (readonly [label: typeof label, text: string | undefined])[] = [
    ['acme', ';pk=:YWNtZQ==:'],
    ['Müller & Söhne', ';pk=:TcO8bGxlciAmIFPDtmhuZQ==:'],
    ['', ';pk=::'],
    [new Uint8Array([0, 255, 10, 13]), ';pk=:AP8KDQ==:'],
    ['x'.repeat(128), `;pk=:${btoa('x'.repeat(128))}:`],
    [new Uint8Array(128), `;pk=:${btoa('\0'.repeat(128))}:`],
    [undefined, undefined],
    [null, undefined]
  ]
  for (const [given, text] of cases) {
    label = given
    const key = keyOf(request, burst, whose)
    t.equal(key && partitionKeyText(key), text)
  }
  t.strictSame(calls[0], [request, 'burst'])
  t.strictSame(lines, [])
})

/** What a function that is wrong is told of. */
function fault(t: Test, wanted: (request: FastifyRequest, policy: string) => unknown): string {
  const { keyOf, request, lines } = ask(wanted as PartitionKey)
  t.equal(keyOf(request, burst, at('user:42')), undefined)
  t.equal(keyOf(request, burst, at('user:42')), undefined)
  t.equal(lines.length, 1, 'once a minute')
  const [[{ option, err }, message]] = lines as [[{ option: string; err: Error }, string]]
  t.equal(option, 'partitionKey')
  t.equal(message, 'fastify-quota: partitionKey failed, so no pk is sent')
  return err.message
}

t.test('a function that fails is logged once a minute, and no key is sent', async t => {
  const clock = stopProcessTime(t)
  const error = new Error('broken')
  const broken = (): never => {
    throw error
  }
  t.equal(fault(t, broken), 'broken')
  const { keyOf, request, lines } = ask(broken)
  for (const pass of [0, 59_999, 1]) {
    clock.pass(pass)
    keyOf(request, burst, at('user:42'))
  }
  t.equal(lines.length, 2)
})

t.test('what is no label is none, and no message shows it', async t => {
  stopProcessTime(t)
  const kinds = 'partitionKey must return a string, bytes or nothing, got a'
  t.equal(
    fault(t, () => 42),
    `${kinds} value of type number`
  )
  t.equal(
    fault(t, () => ({ password: 'secret' })),
    `${kinds} value of type object`
  )
  t.equal(
    fault(t, () => [1]),
    `${kinds} value of type object`
  )
  t.equal(
    fault(t, () => false),
    `${kinds} value of type boolean`
  )
  t.equal(
    fault(t, async () => 'acme'),
    `${kinds} promise`
  )
  const most = 'partitionKey must return at most 128 bytes, got'
  t.equal(
    fault(t, () => 'x'.repeat(129)),
    `${most} 129`
  )
  t.equal(
    fault(t, () => 'ü'.repeat(65)),
    `${most} 130`
  )
  t.equal(
    fault(t, () => new Uint8Array(1000)),
    `${most} 1000`
  )
})

t.test('a promise that is refused for being one may reject, and nothing else fails', async t => {
  stopProcessTime(t)
  const rejected = async (): Promise<never> => {
    throw new Error('later')
  }
  t.match(fault(t, rejected), /got a promise$/)
  await new Promise(resolve => setImmediate(resolve))
})
