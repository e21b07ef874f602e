import { AssertionError } from 'node:assert'
import fc from 'fast-check'
import t from 'tap'
import { script } from '../../src/stores/redis/script.js'
import { howToRepeat, runs, seed } from '../algorithms/kit.js'
import { startRedis } from '../redis/servers.js'
import { compared, parity, toldStore } from './parity.js'
import { replacing } from './redis/kit.js'

t.comment(howToRepeat)
t.setTimeout(120_000 + 200 * runs)

/** Sequences that go on at once: most of the time of each is spent waiting for Redis. */
const LANES = 4

const server = await startRedis(t)

for (const by of ['everything', 'plans'] as const) {
  t.test(`a store in Redis answers what one in memory does, to the digit, by scripts for ${by}`, async t => {
    const before = { ...compared }
    const started = performance.now()
    const lanes = Array.from({ length: LANES }, async (_, lane) => {
      const told = await toldStore(t, server, `${by}-${lane}`, by)
      await fc.assert(parity(told), { seed: seed + lane, numRuns: Math.ceil(runs / 2 / LANES) })
    })
    await Promise.all(lanes)
    const operations = compared.operations - before.operations
    const answers = compared.answers - before.answers
    const seconds = ((performance.now() - started) / 1000).toFixed(1)
    t.comment(
      `${operations} operations, ${answers} answers, ${Math.ceil(runs / 2)} sequences: 0 differences, in ${seconds} s`
    )
    t.ok(operations >= 25 * runs, 'there was something to compare')
  })
}

// --- Whether a difference would be noticed ----------------------------------------------------------------------------

/** Mistakes in the script, and what each changes in it. */
const MISTAKES: Readonly<Record<string, readonly [old: string, by: string]>> = {
  'who has room is charged although others refuse': [
    'if refused and found.allowed then',
    "if operation == 'try' and found.allowed then"
  ],
  'a charge is written before all have decided': [
    'if not entry.step.allowed and not entry.shadow',
    "if operation == 'charge' then keep(entry, entry.step) write() end\nif not entry.step.allowed and not entry.shadow"
  ],
  'a shadow policy refuses': [' and not entry.shadow', ''],
  'a shadow policy is charged although it has no room': [
    'elseif found.allowed then',
    'elseif found.allowed or entry.shadow then'
  ],
  'a refusal is not written': [
    "if operation == 'charge' then write() end",
    'if not refused then write() end'
  ],
  'a peek is written': ["if operation == 'charge' then write() end", 'write()'],
  'a key never ends': ["redis.call('PEXPIRE', key", 'math.max(0'],
  'a state has 14 digits': [
    'return ends > now and state or {}',
    "for j, part in ipairs(state) do state[j] = tonumber(string.format('%.14g', part)) end\nreturn ends > now and state or {}"
  ],
  'an answer has 14 digits': ['step.remaining,', "tonumber(string.format('%.14g', step.remaining)),"],
  'a receipt tells the time of the charge, also of a lease': [
    'receiptAt and receiptAt(entry.params, now) or now',
    'now'
  ],
  'a receipt tells what was asked for': [
    'keep(entry, found)\ntell(entry, found, charged)',
    'keep(entry, found)\ntell(entry, found, entry.units)'
  ],
  'a surplus is taken back from the oldest receipt first': [
    'for i = #entry.charges, 1, -1 do',
    'for i = 1, #entry.charges do'
  ],
  'a surplus is taken back whole from one receipt': [
    'local back = math.min(surplus, charge.units)',
    'local back = surplus'
  ],
  'a shortfall is charged without limit': [
    'more = math.min(-surplus, entry.algorithm.room(entry.slot.state, entry.params, now))',
    'more = -surplus'
  ],
  'the end of a state is not looked at': ['return ends > now and state or {}', 'return state'],
  'a state ends a millisecond early': [
    'return ends > now and state or {}',
    'return ends - 1 > now and state or {}'
  ],
  'another lease is renewed': [
    'entry.algorithm.renew(entry.slot.state, entry.params, now, charge)',
    'entry.algorithm.renew(entry.slot.state, entry.params, now, entry.charges[1])'
  ],
  'two corrections of one place do not know of each other': [
    'keep(entry, found)\ntell(entry, found, more)',
    'entry.kept = found\ntell(entry, found, more)\nend\nfor _, entry in ipairs(entries) do\nkeep(entry, entry.kept)'
  ],
  'what was given back whole stays': ['if found.text and #found.state == 0 then', 'if false then'],
  'a reset forgets the first policy only': ['for i = cursor, last, 2 do', 'for i = cursor, cursor, 2 do']
}

/** Mistakes in the scripts of plans, whose variables have numbers. */
const MISTAKES_OF_PLANS: Readonly<Record<string, readonly [old: RegExp, by: string]>> = {
  'who has room is charged although others refuse': [/^if not \(allowed.*\) then$/gm, 'if false then'],
  'a receipt tells of what was not charged': [/^charged\d = 0$/gm, ''],
  'who is refused decides on what was charged before': [
    /living\(text(\d)\), (params\d, now, 0)/g,
    'state$1, $2'
  ],
  'a shadow policy is charged although it has no room': [/allowed\d and (units\d) or 0/g, '$1'],
  'all policies charge what the first does': [/tonumber\(ARGV\[\d+\]\), \{/g, 'tonumber(ARGV[2]), {'],
  'a policy is read for another': [
    /(local text1, text2.*) = texts\[1\], texts\[2\]/g,
    '$1 = texts[2], texts[1]'
  ],
  'a key never ends': [/redis\.call\('PEXPIRE', key/g, 'math.max(0'],
  'a receipt tells the time of the charge, also of a lease': [/receiptAt\d\(params\d, now\)/g, 'now'],
  'a state ends a millisecond early': [/return ends > now/g, 'return ends - 1 > now'],
  'what has ended stays': [/if text(\d) and #state\1 == 0 then/g, 'if false then'],
  'what is told again has the parameters of before': [/tonumber\(ARGV\[(\d+)\]\), tonumber/g, '7, tonumber']
}

/** Of these, a script may also fail: an algorithm cannot read what another one has written. */
const MAY_FAIL: readonly string[] = ['a policy is read for another']
const FAILED = 'Error: the store has failed'

for (const [name, [old, by]] of Object.entries(MISTAKES_OF_PLANS)) {
  t.test(`it notices if, in a plan, ${name}`, async t => {
    let replaced = 0
    const told = await toldStore(
      t,
      server,
      `plan-${Object.keys(MISTAKES_OF_PLANS).indexOf(name)}`,
      'plans',
      text => {
        const isPlan = text.includes('local charging = true')
        const wrong = isPlan ? text.replace(old, by) : text
        if (wrong !== text) replaced++
        return wrong
      }
    )
    const { failed, errorInstance, numRuns } = await fc.check(parity(told), {
      numRuns: 2000,
      endOnFailure: true
    })
    t.ok(replaced > 0)
    t.ok(failed)
    const isSeen = errorInstance instanceof AssertionError
    t.ok(isSeen || (MAY_FAIL.includes(name) && String(errorInstance) === FAILED), String(errorInstance))
    t.comment(`in sequence ${numRuns}`)
  })
}

for (const [name, [old, by]] of Object.entries(MISTAKES)) {
  t.test(`it notices if ${name}`, async t => {
    t.not(replacing(old, by)(script(true)), script(true))
    const told = await toldStore(
      t,
      server,
      `mistake-${Object.keys(MISTAKES).indexOf(name)}`,
      'everything',
      replacing(old, by)
    )
    const { failed, errorInstance, numRuns } = await fc.check(parity(told), {
      numRuns: 2000,
      endOnFailure: true
    })
    t.ok(failed)
    t.type(errorInstance, AssertionError, String(errorInstance))
    t.comment(`in sequence ${numRuns}`)
  })
}
