import assert from 'node:assert/strict'
import fc from 'fast-check'
import type { Redis } from 'ioredis'
import { TermsError } from '../../src/algorithm.js'
import type { Algorithm, Params, Receipt, State, Step, Terms } from '../../src/algorithm.js'
import { act, Client, denseScenario, HOUR, many, params, scenario, share, YEAR } from './kit.js'
import type { Scenario, Subject } from './kit.js'

/** Whether an algorithm says the same in Lua as in TypeScript, digit by digit, whatever it is asked. */

// --- What is asked ----------------------------------------------------------------------------------------------------

/** One turn of whoever spends, corrects, gives back, holds on, changes plans, or sets the clock. */
interface Turn {
  readonly act: Scenario['acts'][number]
  /** Or waits only, so that what is next meets a state of earlier. */
  readonly asks: boolean
  /** How far the clock goes back after it, in thousandths of one and a half windows. */
  readonly back: number
  readonly next:
    | 'nothing'
    | 'settle'
    | 'settle alien'
    | 'renew'
    | 'renew alien'
    | 'room'
    | 'change plan'
    | 'ask far too much'
  /** Of the charges that were made, the latest first; of the numbers in a state, the last first. */
  readonly which: number
  readonly plus: number
  readonly actual: 'none' | 'part' | 'the same' | 'one more' | 'as much as fits' | 'more than fits'
  readonly plan: 'none' | 'one' | 'half' | 'one less' | 'the first'
  readonly share: number
}

const turn: fc.Arbitrary<Turn> = fc.record({
  act,
  asks: fc.constantFrom(true, true, false),
  back: fc.oneof(
    { weight: 8, arbitrary: fc.constant(0) },
    { weight: 1, arbitrary: fc.constantFrom(1, 666, 667) },
    { weight: 1, arbitrary: share }
  ),
  next: fc.constantFrom<Turn['next'][]>(
    'nothing',
    'nothing',
    'nothing',
    'settle',
    'settle',
    'settle',
    'settle alien',
    'renew',
    'renew',
    'renew alien',
    'room',
    'change plan',
    'ask far too much'
  ),
  which: fc.nat(5),
  plus: fc.constantFrom(0, 0, 1, -1),
  actual: fc.constantFrom<Turn['actual'][]>(
    'none',
    'none',
    'part',
    'the same',
    'one more',
    'as much as fits',
    'more than fits'
  ),
  plan: fc.constantFrom<Turn['plan'][]>('none', 'one', 'half', 'one less', 'the first', 'the first'),
  share
})

const MOST = 2 ** 53 - 1
/** What a scenario waits for may be thousands of years away; the time in sub-windows has to stay below 2^53. */
const LATEST = 2 ** 47

/** Numbers with as many digits as an algorithm takes. */
const largeTerms: fc.Arbitrary<Terms> = fc.record({
  quota: fc.constantFrom(MOST, 10 ** 15, 123_456_789_012_345, 999_999_999_989),
  window: fc.constantFrom(1, 7, 1000, 60_000, HOUR - 1, HOUR, 25 * HOUR, YEAR, 10 * YEAR),
  precision: fc.constantFrom(1, 2, 7, 60),
  burst: fc.constantFrom(MOST, 10 ** 15, 123_456_789_012_345, 77),
  align: fc.boolean(),
  maxDelay: fc.constantFrom(1, 1500, HOUR, YEAR),
  holdFor: fc.constantFrom(1, 1500, HOUR, YEAR)
})

const beginning: fc.Arbitrary<Scenario> = fc.oneof(
  { weight: 3, arbitrary: denseScenario(0) },
  { weight: 1, arbitrary: scenario(0) },
  { weight: 1, arbitrary: fc.record({ terms: largeTerms, start: fc.nat(YEAR), acts: fc.constant([]) }) }
)

/** These terms, or ones as near to them as the algorithm's arithmetic takes. */
export function fitted(algorithm: Algorithm, terms: Terms): Terms {
  try {
    algorithm.params(terms)
    return terms
  } catch (error) {
    if (!(error instanceof TermsError)) throw error
    const quota = Math.floor(terms.quota / 2)
    const burst = Math.ceil(terms.burst / 4)
    return fitted(algorithm, { ...terms, quota, burst, maxDelay: Math.ceil(terms.maxDelay / 2) })
  }
}

/** A client that takes turns. */
class Spender extends Client {
  take(turn: Turn): void {
    this.now = Math.min(LATEST, this.now + this.milliseconds(turn.act.wait))
    if (turn.asks) this.spend(this.units(turn.act.ask))
    this.now = Math.max(0, this.now - Math.floor((turn.back * 1.5 * this.terms.window) / 1000))
    this.follow(turn)
  }

  /** Sound or not: a change of plan in mid-state may ask for more than an algorithm promises. */
  override try(units: number, later: number = 0): Step {
    return this.subject.algorithm.step(Object.freeze(this.state), this.params, this.now + later, units)
  }

  private follow(turn: Turn): void {
    switch (turn.next) {
      case 'nothing':
        return
      case 'settle':
      case 'settle alien': {
        const charge = this.charge(turn)
        return this.settle(charge, this.actual(turn, charge))
      }
      case 'renew':
      case 'renew alien':
        if (this.subject.algorithm.renew !== undefined) this.prolong(turn)
        return
      case 'room':
        this.room()
        return
      case 'change plan':
        this.params = params(this.subject, this.subject.terms(this.plan(turn)))
        return
      case 'ask far too much':
        this.try(MOST)
    }
  }

  /** One that was made, or one at a time that the state knows. */
  private charge({ next, which, plus, share }: Turn): Receipt {
    const admitted = this.admissions.at(-1 - which)
    if (next !== 'settle alien' && next !== 'renew alien' && admitted !== undefined) return admitted.charge
    const at = Math.max(0, (this.state.at(-1 - which) ?? this.now) + plus)
    return { at, units: Math.floor((share * this.capacity) / 1000) }
  }

  private actual({ actual, share }: Turn, { units }: Receipt): number {
    switch (actual) {
      case 'none':
        return 0
      case 'part':
        return Math.floor((share * units) / 1000)
      case 'the same':
        return units
      case 'one more':
        return units + 1
      case 'as much as fits':
        return units + this.room()
      case 'more than fits':
        return MOST
    }
  }

  private prolong(turn: Turn): void {
    const charge = this.renew(this.charge(turn))
    const admitted = this.admissions.at(-1 - turn.which)
    if (admitted !== undefined) this.admissions.splice(-1 - turn.which, 1, { ...admitted, charge })
  }

  private plan({ plan }: Turn): Terms {
    const { quota } = this.terms
    const chosen = { none: 0, one: 1, half: Math.floor(quota / 2), 'one less': quota - 1, 'the first': quota }
    return { ...this.terms, quota: chosen[plan], burst: Math.min(this.terms.burst, chosen[plan] + 1) }
  }
}

// --- What is answered -------------------------------------------------------------------------------------------------

/** A call of one function, and what TypeScript returned, as the script below reads and writes them. */
interface Call {
  readonly question: string
  readonly answer: string
}

/** The same algorithm; it writes down what it is asked. */
function recorded(algorithm: Algorithm, calls: Call[]): Algorithm {
  const record = (
    name: string,
    state: State,
    params: Params,
    others: readonly number[],
    answer: string
  ): void => {
    calls.push({ question: [name, ...[state, params, others].map(digits)].join('|'), answer })
  }
  return {
    ...algorithm,
    step(state, params, now, units) {
      const step = algorithm.step(state, params, now, units)
      record('step', state, params, [now, units], stepped(step))
      return step
    },
    settle(state, params, now, charge, actual) {
      const settled = algorithm.settle(state, params, now, charge, actual)
      record('settle', state, params, [now, charge.at, charge.units, actual], digits(settled))
      return settled
    },
    room(state, params, now) {
      const room = algorithm.room(state, params, now)
      record('room', state, params, [now], digits([room]))
      return room
    },
    ...(algorithm.receiptAt && {
      receiptAt(params, now) {
        const at = algorithm.receiptAt!(params, now)
        record('receiptAt', [], params, [now], digits([at]))
        return at
      }
    }),
    ...(algorithm.renew && {
      renew(state, params, now, charge) {
        const renewed = algorithm.renew!(state, params, now, charge)
        const { at, units } = renewed.charge
        const answer = `${digits([at, units])}|${digits(renewed.state)}`
        record('renew', state, params, [now, charge.at, charge.units], answer)
        return renewed
      }
    })
  }
}

function stepped({ allowed, state, remaining, effectiveWindow, retryAfter, delay, ttl }: Step): string {
  return `${allowed}|${digits([remaining, effectiveWindow, retryAfter, delay, ttl])}|${digits(state)}`
}

const digits = (numbers: readonly number[]): string =>
  numbers.map(number => (Object.is(number, -0) ? '-0' : BigInt(number).toString())).join(' ')

/**
 * Answers as many questions as there are arguments. A twin sees nothing of Lua but `math`. What it gives to whom charges are
 * the same functions, so both are asked by turns.
 */
const script = (lua: string): string => `
local function made(charging)
  local string, table, bit, struct, cjson, cmsgpack, redis, server, KEYS, ARGV
  local next, pairs, ipairs, select, type, unpack, tonumber, tostring, error, pcall, rawset, loadstring
  ${lua}
end
local twin = made(false)
local charge, receiptAt = made(true)
assert((receiptAt == nil) == (twin.receiptAt == nil))

local function numbers(text)
  local list = {}
  for word in string.gmatch(text, '%S+') do list[#list + 1] = tonumber(word) end
  return list
end

local function digits(list)
  local words = {}
  for i = 1, #list do words[i] = string.format('%.0f', list[i]) end
  for key in pairs(list) do
    if words[key] == nil then words[#words + 1] = 'and ' .. tostring(key) end
  end
  return table.concat(words, ' ')
end

local answers = {
  step = function(state, params, others, turn)
    local step = turn % 2 == 0 and charge or twin.step
    local allowed, after, remaining, effectiveWindow, retryAfter, delay, ttl =
      step(state, params, others[1], others[2])
    local numbers = { remaining, effectiveWindow, retryAfter, delay, ttl }
    return tostring(allowed) .. '|' .. digits(numbers) .. '|' .. digits(after)
  end,
  settle = function(state, params, others)
    local charge = { at = others[2], units = others[3] }
    local settled = twin.settle(state, params, others[1], charge, others[4])
    assert(charge.at == others[2] and charge.units == others[3])
    return digits(settled)
  end,
  room = function(state, params, others)
    return digits({ twin.room(state, params, others[1]) })
  end,
  receiptAt = function(state, params, others, turn)
    return digits({ (turn % 2 == 0 and receiptAt or twin.receiptAt)(params, others[1]) })
  end,
  renew = function(state, params, others)
    local charge = { at = others[2], units = others[3] }
    local renewed = twin.renew(state, params, others[1], charge)
    assert(charge.at == others[2] and charge.units == others[3])
    return digits({ renewed.charge.at, renewed.charge.units }) .. '|' .. digits(renewed.state)
  end
}

local replies = {}
for i = 1, #ARGV do
  local name, before, terms, others = string.match(ARGV[i], '^(%a+)|(.*)|(.*)|(.*)$')
  local state, params = numbers(before), numbers(terms)
  local reply = answers[name](state, params, numbers(others), i)
  replies[i] = digits(params) == terms and reply or reply .. ', and has changed its parameters'
end
return replies
`

// --- The comparison ---------------------------------------------------------------------------------------------------

/** How many calls have been compared so far. */
export const compared = { calls: 0 }

/** Whatever happens, the answers of the twin are those of TypeScript. */
export function parity(
  redis: Redis,
  subject: Subject,
  lua: string
): fc.IAsyncProperty<[Scenario, readonly Turn[]]> {
  const loaded = redis.script('LOAD', script(lua)) as Promise<string>
  return fc.asyncProperty(beginning, many(turn, 40), async ({ terms, start }, turns) => {
    const calls: Call[] = []
    const recording: Subject = { ...subject, algorithm: recorded(subject.algorithm, calls) }
    const spender = new Spender(recording, subject.terms(terms), start)
    for (const turn of turns) spender.take(turn)
    const questions = calls.map(({ question }) => question)
    const replies = (await redis.evalsha(await loaded, 0, ...questions)) as readonly string[]
    for (const [i, { question, answer }] of calls.entries()) {
      if (replies[i] !== answer) assert.fail(`${question}: ${answer} in TypeScript, ${replies[i]} in Lua`)
    }
    compared.calls += calls.length
  })
}
