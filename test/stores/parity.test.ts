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

t.test('a store in Redis answers what one in memory does, to the digit', async t => {
  const started = performance.now()
  const lanes = Array.from({ length: LANES }, async (_, lane) => {
    const told = await toldStore(t, server, `lane-${lane}`)
    await fc.assert(parity(told), { seed: seed + lane, numRuns: Math.ceil(runs / LANES) })
  })
  await Promise.all(lanes)
  const { operations, answers } = compared
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  t.comment(`${operations} operations, ${answers} answers, ${runs} sequences: 0 differences, in ${seconds} s`)
  t.ok(operations >= 50 * runs, 'there was something to compare')
})

// --- Whether a difference would be noticed ----------------------------------------------------------------------------

/** Mistakes in the script, and what each changes in it. */
const MISTAKES: Readonly<Record<string, readonly [old: string, by: string]>> = {
  'who has room is charged although others refuse': [
    'if refused and step.allowed then',
    "if operation == 'try' and step.allowed then"
  ],
  'a charge is written before all have decided': [
    'if not entry.step.allowed and not entry.shadow',
    "if operation == 'charge' then keep(entry, entry.step) write() end\nif not entry.step.allowed and not entry.shadow"
  ],
  'a shadow policy refuses': [' and not entry.shadow', ''],
  'a shadow policy is charged although it has no room': [
    'elseif step.allowed then',
    'elseif step.allowed or entry.shadow then'
  ],
  'a refusal is not written': [
    "if operation == 'charge' then write() end",
    'if not refused then write() end'
  ],
  'a peek is written': ["if operation == 'charge' then write() end", 'write()'],
  'a key never ends': ["redis.call('PEXPIRE', key", 'math.max(0'],
  'a state has 14 digits': [
    'found.state = texts[i] and living(texts[i]) or {}',
    "found.state = texts[i] and living(texts[i]) or {}\nfor j, part in ipairs(found.state) do found.state[j] = tonumber(string.format('%.14g', part)) end"
  ],
  'an answer has 14 digits': ["'%d %.0f ", "'%d %.14g "],
  'a receipt tells the time of the charge, also of a lease': [
    'receiptAt and receiptAt(entry.params, now) or now',
    'now'
  ],
  'a receipt tells what was asked for': [
    'keep(entry, step)\ntell(entry, step, charged)',
    'keep(entry, step)\ntell(entry, step, entry.units)'
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
    'keep(entry, step)\ntell(entry, step, more)',
    'entry.kept = step\ntell(entry, step, more)\nend\nfor _, entry in ipairs(entries) do\nkeep(entry, entry.kept)'
  ],
  'what was given back whole stays': ['if found.text and #found.state == 0 then', 'if false then'],
  'a reset forgets the first policy only': ['for i = cursor, last, 2 do', 'for i = cursor, cursor, 2 do']
}

const NO_ANSWER = 'an answer has 14 digits'

for (const [name, [old, by]] of Object.entries(MISTAKES)) {
  t.test(`it notices if ${name}`, async t => {
    t.not(replacing(old, by)(script(true)), script(true))
    const told = await toldStore(
      t,
      server,
      `mistake-${Object.keys(MISTAKES).indexOf(name)}`,
      replacing(old, by)
    )
    const { failed, errorInstance, numRuns } = await fc.check(parity(told), {
      numRuns: 2000,
      endOnFailure: true
    })
    t.ok(failed)
    // A number that is not whole is no answer of the script, so it is noticed before anything is compared.
    if (name === NO_ANSWER) t.match(errorInstance, { message: 'the store has failed' })
    else t.type(errorInstance, AssertionError, String(errorInstance))
    t.comment(`in sequence ${numRuns}`)
  })
}
