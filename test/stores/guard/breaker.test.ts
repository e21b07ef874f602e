import t from 'tap'
import { Breaker } from '../../../src/stores/guard/breaker.js'
import { TestTiming, settled } from './kit.js'

/** A breaker, and a server behind it that is well or not. */
class Circuit {
  readonly timing = new TestTiming()
  /** What a probe finds: a code, or `undefined` if all is well. */
  finds: string | undefined = 'ECONNREFUSED'
  /** When it was probed, since the test began. */
  readonly probes: number[] = []
  readonly told: (readonly [state: string, code: string])[] = []
  readonly breaker: Breaker
  readonly #began = this.timing.time

  constructor() {
    const probe = async (): Promise<string | undefined> => {
      this.probes.push(this.timing.time - this.#began)
      return this.finds
    }
    this.breaker = new Breaker(probe, (state, code) => this.told.push([state, code]), this.timing)
  }

  fail(times: number = 1): void {
    for (let i = 0; i < times; i++) this.breaker.failed(this.breaker.generation, 'TIMEOUT')
  }

  succeed(times: number = 1): void {
    for (let i = 0; i < times; i++) this.breaker.succeeded(this.breaker.generation)
  }
}

t.test('five failures in a row open it', async t => {
  const circuit = new Circuit()
  circuit.fail(4)
  t.equal(circuit.breaker.down, false)
  circuit.succeed()
  circuit.fail(4)
  t.equal(circuit.breaker.down, false, 'a success between them begins a new row')
  t.strictSame(circuit.told, [])
  circuit.fail()
  t.equal(circuit.breaker.down, true)
  t.strictSame(circuit.told, [['down', 'TIMEOUT']])
})

t.test('failures in a row open it however far apart they are', async t => {
  const circuit = new Circuit()
  for (let i = 0; i < 4; i++) {
    circuit.fail()
    await circuit.timing.pass(60_000)
  }
  t.equal(circuit.breaker.down, false)
  circuit.fail()
  t.equal(circuit.breaker.down, true)
})

t.test('twenty calls within a second of which half failed open it', async t => {
  const circuit = new Circuit()
  for (let i = 0; i < 9; i++) {
    circuit.succeed()
    circuit.fail()
  }
  circuit.succeed()
  t.equal(circuit.breaker.down, false, 'nineteen are not enough')
  circuit.fail()
  t.equal(circuit.breaker.down, true)
})

t.test('less than half of many does not open it', async t => {
  const circuit = new Circuit()
  for (let i = 0; i < 30; i++) {
    circuit.succeed(2)
    circuit.fail()
  }
  t.equal(circuit.breaker.down, false)
})

t.test('what was counted is forgotten a second after the first of it', async t => {
  const circuit = new Circuit()
  for (let i = 0; i < 9; i++) {
    circuit.succeed()
    circuit.fail()
  }
  await circuit.timing.pass(1000)
  for (let i = 0; i < 9; i++) {
    circuit.succeed()
    circuit.fail()
  }
  t.equal(circuit.breaker.down, false)
  circuit.succeed()
  circuit.fail()
  t.equal(circuit.breaker.down, true, 'within the new second there are twenty')
})

t.test('it is probed after a quarter of a second, then less and less often, each second at last', async t => {
  const circuit = new Circuit()
  circuit.breaker.trip('ECONNREFUSED')
  t.strictSame(circuit.probes, [], 'not at once')
  await circuit.timing.pass(3750)
  t.strictSame(circuit.probes, [250, 750, 1750, 2750, 3750])
  t.strictSame(circuit.told, [['down', 'ECONNREFUSED']], 'it is told once, however many probes fail')
})

t.test('the time between probes is spread by a quarter to both sides', async t => {
  for (const [chance, probes] of [
    [0, [187.5, 562.5, 1312.5]],
    [1, [312.5, 937.5, 2187.5]]
  ] as const) {
    const circuit = new Circuit()
    circuit.timing.chance = chance
    circuit.breaker.trip('ECONNREFUSED')
    await circuit.timing.pass(2200)
    t.strictSame(circuit.probes.slice(0, 3), probes)
  }
})

t.test('it tells how long it is to the next probe', async t => {
  const circuit = new Circuit()
  t.equal(circuit.breaker.retryAfter, 0, 'nothing while it is up')
  circuit.breaker.trip('ECONNREFUSED')
  t.equal(circuit.breaker.retryAfter, 250)
  await circuit.timing.pass(100)
  t.equal(circuit.breaker.retryAfter, 150)
  await circuit.timing.pass(200)
  t.equal(circuit.breaker.retryAfter, 450, 'half a second after the first one')
  circuit.timing.time += 5000
  t.equal(circuit.breaker.retryAfter, 0, 'a probe that is late will not be long')
})

t.test('a probe that finds all well closes it, and it counts from nothing', async t => {
  const circuit = new Circuit()
  circuit.fail(5)
  await circuit.timing.pass(250)
  t.equal(circuit.breaker.down, true)
  circuit.finds = undefined
  await circuit.timing.pass(500)
  t.equal(circuit.breaker.down, false)
  t.strictSame(circuit.told, [
    ['down', 'TIMEOUT'],
    ['up', 'OK']
  ])
  await circuit.timing.pass(60_000)
  t.strictSame(circuit.probes, [250, 750], 'nobody probes what is up')
  circuit.fail(4)
  t.equal(circuit.breaker.down, false)
  circuit.fail()
  t.equal(circuit.breaker.down, true)
})

t.test('what failed before an outage does not count after it', async t => {
  const circuit = new Circuit()
  for (let i = 0; i < 9; i++) {
    circuit.succeed()
    circuit.fail()
  }
  circuit.breaker.trip('READONLY')
  circuit.finds = undefined
  await circuit.timing.pass(250)
  circuit.succeed()
  circuit.fail()
  t.equal(circuit.breaker.down, false)
})

t.test('each outage is probed as if it were the first', async t => {
  const circuit = new Circuit()
  circuit.breaker.trip('ECONNREFUSED')
  await circuit.timing.pass(1750)
  circuit.finds = undefined
  await circuit.timing.pass(1000)
  circuit.breaker.trip('ECONNREFUSED')
  t.equal(circuit.breaker.retryAfter, 250)
})

t.test('while it is down, what calls report is not heard', async t => {
  const circuit = new Circuit()
  circuit.fail(50)
  circuit.succeed(50)
  circuit.breaker.trip('READONLY')
  t.equal(circuit.breaker.down, true)
  t.strictSame(circuit.told, [['down', 'TIMEOUT']])
  t.equal(circuit.timing.waiting, 1, 'one probe is planned')
})

t.test('the stragglers of one outage open it only once', async t => {
  const circuit = new Circuit()
  const { generation } = circuit.breaker
  circuit.fail(5)
  circuit.finds = undefined
  await circuit.timing.pass(250)
  t.equal(circuit.breaker.down, false)
  for (let i = 0; i < 100; i++) circuit.breaker.failed(generation, 'TIMEOUT')
  t.equal(circuit.breaker.down, false)
  circuit.fail(4)
  circuit.breaker.succeeded(generation)
  circuit.fail()
  t.equal(circuit.breaker.down, true, 'and one that succeeds late says nothing of the server now')
})

t.test('calls that begin while it is down are of another generation than those after it', async t => {
  const circuit = new Circuit()
  circuit.fail(5)
  const { generation } = circuit.breaker
  circuit.finds = undefined
  await circuit.timing.pass(250)
  for (let i = 0; i < 5; i++) circuit.breaker.failed(generation, 'TIMEOUT')
  t.equal(circuit.breaker.down, false)
})

t.test('it is probed at once if there is reason to, instead of later', async t => {
  const circuit = new Circuit()
  circuit.breaker.hasten()
  t.strictSame(circuit.probes, [], 'not while it is up')
  circuit.breaker.trip('ECONNREFUSED')
  await circuit.timing.pass(100)
  circuit.breaker.hasten()
  circuit.breaker.hasten()
  t.strictSame(circuit.probes, [100], 'and not twice at a time')
  await circuit.timing.pass(150)
  t.strictSame(circuit.probes, [100], 'the planned one is not needed any more')
  await circuit.timing.pass(350)
  t.strictSame(circuit.probes, [100, 600])
  circuit.finds = undefined
  circuit.breaker.hasten()
  await settled()
  t.equal(circuit.breaker.down, false)
})

t.test('a probe that takes its time is the only one', async t => {
  const timing = new TestTiming()
  const answers: ((code: string | undefined) => void)[] = []
  const probe = (): Promise<string | undefined> => new Promise(resolve => answers.push(resolve))
  const breaker = new Breaker(probe, () => {}, timing)
  breaker.trip('TIMEOUT')
  await timing.pass(100)
  breaker.hasten()
  await timing.pass(10_000)
  breaker.hasten()
  t.equal(answers.length, 1)
  t.equal(breaker.retryAfter, 0)
  answers[0]!('TIMEOUT')
  await timing.pass(500)
  t.equal(answers.length, 2)
})

t.test('a breaker that is closed for good asks nobody and tells nobody', async t => {
  const circuit = new Circuit()
  circuit.breaker.close()
  circuit.fail(5)
  circuit.breaker.trip('ECONNREFUSED')
  t.equal(circuit.breaker.down, false)
  t.strictSame(circuit.told, [])

  const down = new Circuit()
  down.breaker.trip('ECONNREFUSED')
  down.breaker.close()
  t.equal(down.timing.waiting, 0)

  const probing = new Circuit()
  probing.breaker.trip('ECONNREFUSED')
  probing.finds = undefined
  probing.breaker.hasten()
  probing.breaker.close()
  await settled()
  t.strictSame(probing.told, [['down', 'ECONNREFUSED']], 'what a probe finds then is of no interest')
  t.equal(probing.timing.waiting, 0)
})
