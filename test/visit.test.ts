import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { addressing } from '../src/address.js'
import { OperatorFaults } from '../src/operator.js'
import { Registry } from '../src/registry.js'
import type { Identify } from '../src/registry.js'
import { RequestParts } from '../src/visit.js'
import { createWarnings } from '../src/warnings.js'

interface Asked {
  readonly parts: RequestParts
  /** Options of the faults that were logged. */
  readonly faults: readonly unknown[]
}

function ask(identify: Readonly<Record<string, Identify>>, request: object = {}): Asked {
  const faults: unknown[] = []
  const registry = new Registry()
  registry.addIdentities(identify)
  const log = { error: ({ option }: { option: unknown }) => faults.push(option) }
  const whole: object = Object.defineProperties(
    { method: 'GET', socket: {}, routeOptions: {}, log },
    Object.getOwnPropertyDescriptors(request)
  )
  const parts = new RequestParts(whole as FastifyRequest, {
    registry,
    addressing: addressing(64),
    faults: new OperatorFaults(),
    warnings: createWarnings()
  })
  return { parts, faults }
}

t.test('identities that are known at once make no promise', async t => {
  const { parts } = ask({ user: () => '42', tenant: () => undefined })
  t.equal(parts.identify([0, 1]), undefined)
  t.strictSame(parts.identities, ['user:42', undefined])
})

t.test('identities are asked for once, those that are known later together', async t => {
  const asked: string[] = []
  const later = (name: string): Identify => {
    return async () => {
      asked.push(name)
      return name
    }
  }
  const { parts } = ask({ a: later('a'), b: later('b'), c: later('c') })
  const waiting = parts.identify([0, 2])
  t.ok(waiting instanceof Promise)
  t.strictSame(asked, ['a', 'c'])
  await waiting
  t.strictSame([...parts.identities], ['a:a', undefined, 'c:c'])
  t.equal(parts.identify([0, 2]), undefined)
  await parts.identify([0, 1])
  t.strictSame(asked, ['a', 'c', 'b'])
})

t.test('an identity that is not known yet is waited for by all who ask', async t => {
  let know: (name: string) => void = () => {}
  const name = new Promise<string>(resolve => (know = resolve))
  const { parts } = ask({ user: () => name, other: () => 'b' })
  const both = [parts.identify([0]), parts.identify([0, 1])]
  t.ok(both.every(waiting => waiting instanceof Promise))
  know('42')
  await both[1]
  t.strictSame(parts.identities, ['user:42', 'other:b'])
  t.equal(parts.identify([0, 1]), undefined)
  await both[0]
})

t.test('a thenable that is no promise is waited for', async t => {
  const thenable = (value: string): Promise<string> =>
    // oxlint-disable-next-line unicorn/no-thenable -- as query builders are
    ({ then: (use: (value: string) => unknown) => void use(value) }) as unknown as Promise<string>
  const { parts } = ask({ user: () => thenable('42') })
  await parts.identify([0])
  t.strictSame(parts.identities, ['user:42'])
})

t.test('the address is looked up when a partition asks for it, and once', async t => {
  let looked = 0
  const request = {
    get ip() {
      looked++
      return '192.0.2.1'
    }
  }
  const { parts } = ask({}, request)
  t.equal(looked, 0)
  t.equal(parts.address, 'ip:192.0.2.1')
  t.equal(parts.address, 'ip:192.0.2.1')
  t.equal(looked, 1)
})

t.test('the route is the pattern that matched', async t => {
  t.equal(ask({}, { method: 'HEAD', routeOptions: { url: '/a/:b' } }).parts.route, 'route:GET /a/:b')
  t.equal(ask({}).parts.route, 'route:404')
})

t.test('a request is nameless if an identity was asked for and empty', async t => {
  const { parts } = ask({ user: () => '42', tenant: () => undefined })
  t.equal(parts.nameless, false)
  parts.identify([0])
  t.equal(parts.nameless, false)
  parts.identify([1])
  t.equal(parts.nameless, true)
})

t.test('an identity that is known in the end is named, if it was asked for and empty', async t => {
  let known = false
  const { parts } = ask({
    never: () => undefined,
    unasked: () => 'somebody',
    late: async () => (known ? 'somebody' : undefined)
  })
  await parts.identify([0, 2])
  t.equal(await parts.late(), undefined)
  known = true
  t.equal(await parts.late(), 'late')
})

t.test('an identity that is known at a later hook is not looked for again', async t => {
  const known: { user?: string } = {}
  let asked = 0
  const { parts } = ask({
    user: () => {
      asked++
      return known.user
    },
    tenant: () => undefined
  })
  t.equal(await parts.late(), undefined, 'nobody was asked for')
  parts.identify([0, 1])
  known.user = '42'
  parts.identify([0])
  t.equal(parts.nameless, true)
  t.equal(await parts.late(), undefined)
  t.equal(asked, 2)
})

t.test('an identity that fails is empty, then and later', async t => {
  const { parts, faults } = ask({
    throws: () => {
      throw new Error('who?')
    },
    nonsense: () => ({}) as never,
    rejects: async () => Promise.reject(new Error('who, later?'))
  })
  await parts.identify([0, 1, 2])
  t.strictSame(faults, ['identify.throws', 'identify.nonsense', 'identify.rejects'])
  t.equal(await parts.late(), undefined)
  t.ok(parts.identities.every(identity => identity === undefined))
})
