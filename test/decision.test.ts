import t from 'tap'
import { UNDECIDED, decide, isCertain, join, refusing, undecidable } from '../src/decision.js'
import type { Decision } from '../src/decision.js'
import { compilePolicy } from '../src/policy.js'
import type { Charge, ServiceLimit } from '../src/store.js'
import { memoryStore } from '../src/stores/memory.js'

const policy = (name: string, mode: 'enforce' | 'shadow' = 'enforce'): ServiceLimit['policy'] =>
  compilePolicy(name, { quota: 1, window: '1m', mode }, [])

const [a, b, trial] = [policy('a'), policy('b'), policy('trial', 'shadow')]

/** Decides units of each policy on an empty store. */
function decided(units: readonly (readonly [ServiceLimit['policy'], number])[]): Decision {
  const store = memoryStore()
  const charges: readonly Charge[] = units.map(([policy, units]) => ({ partition: 'global', policy, units }))
  const decision = decide(charges, store.consume(charges), ['c'])
  store.close()
  return decision
}

const names = (limits: readonly ServiceLimit[]): readonly string[] => limits.map(({ policy }) => policy.name)

t.test('a decision is allowed if all limits that are enforced allow it', async t => {
  const allowed = decided([
    [a, 1],
    [trial, 2],
    [b, 1]
  ])
  t.equal(allowed.outcome, 'allowed')
  t.equal(allowed.source, 'memory')
  t.strictSame(names(allowed.limits), ['a', 'b'])
  t.strictSame(allowed.shadow, [{ policy: 'trial', wouldRefuse: true }])
  t.strictSame(allowed.exempt, ['c'])
  t.strictSame(refusing(allowed), [])
})

t.test('a decision is refused if one limit refuses it, and that one is told', async t => {
  const refused = decided([
    [a, 1],
    [b, 2]
  ])
  t.equal(refused.outcome, 'refused')
  t.strictSame(names(refused.limits), ['a', 'b'])
  t.strictSame(names(refusing(refused)), ['b'])
})

t.test('a decision about nothing is allowed', async t => {
  t.match(decide([], { limits: [], source: 'none' }, []), { outcome: 'allowed', limits: [], source: 'none' })
})

t.test('a later stage joins what earlier ones decided, and its outcome is the outcome', async t => {
  const [first, then] = [decided([[a, 1]]), decided([[b, 2]])]
  t.equal(join(UNDECIDED, first), first)
  const joined = join(first, then)
  t.equal(joined.outcome, 'refused')
  t.strictSame(names(joined.limits), ['a', 'b'])
  t.strictSame(joined.exempt, ['c', 'c'])
  t.strictSame(join(decided([[trial, 1]]), decided([[trial, 2]])).shadow, [
    { policy: 'trial', wouldRefuse: false },
    { policy: 'trial', wouldRefuse: true }
  ])
})

t.test('a stage that asked nobody does not hide who decided before', async t => {
  const nothing = decide([], { limits: [], source: 'none' }, [])
  t.equal(join(decided([[a, 1]]), nothing).source, 'memory')
  t.equal(join(nothing, decided([[a, 1]])).source, 'memory')
})

t.test('a stage that nobody could decide makes the whole uncertain, whatever was decided before', async t => {
  const closed = join(decided([[a, 1]]), undecidable('closed', ['d']))
  t.match(closed, { outcome: 'refused', source: 'closed', exempt: ['c', 'd'] })
  t.strictSame(names(closed.limits), ['a'])
  t.strictSame(refusing(closed), [])
  const open = decide([], { limits: [], source: 'open' }, [])
  t.equal(join(decided([[a, 1]]), open).source, 'open')
  t.equal(join(open, decided([[a, 1]])).source, 'open')
  t.equal(join(open, decided([[a, 2]])).source, 'memory', 'a refusal is what it is')
  t.equal(join(decide([], { limits: [], source: 'local' }, []), open).source, 'local')
})

t.test('a decision is certain if a store has made it while nothing failed', async t => {
  for (const source of ['none', 'memory', 'redis'] as const) t.ok(isCertain({ ...UNDECIDED, source }), source)
  for (const source of ['open', 'local', 'closed'] as const)
    t.notOk(isCertain({ ...UNDECIDED, source }), source)
})

t.test('an answer that nobody could give is a refusal that knows when to ask again', async t => {
  const answer = { limits: [], source: 'closed', retryAfter: 250 } as const
  t.match(decide([], answer, ['d']), { outcome: 'refused', source: 'closed', retryAfter: 250, exempt: ['d'] })
  t.equal(join(decided([[a, 1]]), decide([], answer, [])).retryAfter, 250)
})

t.test('the decision before any decision cannot be changed', async t => {
  t.ok(Object.isFrozen(UNDECIDED) && Object.isFrozen(UNDECIDED.limits) && Object.isFrozen(UNDECIDED.shadow))
})
