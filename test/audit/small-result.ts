import type { AttackResult, AuditResult, RequestRecord } from '../../src/audit/result.js'

/** A small result: a quota of 2 per 2 s, of which an attack was admitted `most`. */
export function smallResult({ most = 3 }: { readonly most?: number } = {}): AuditResult {
  const requests = Array.from({ length: most + 1 }, (_, i): RequestRecord => ({
    sent: 100 + 10 * i,
    arrived: 105 + 10 * i,
    status: i < most ? 200 : 429,
    outcome: i < most ? 'admitted' : 'refused',
    variant: null,
    available: i < most ? most - i - 1 : 0,
    retryAfter: i < most ? null : 2000
  }))
  const window = { from: 100, to: 105 + 10 * (most - 1) }
  const attack: AttackResult = {
    name: 'drained',
    about: 'spends all and more at once, then keeps asking for longer than a window',
    from: 100,
    to: 105 + 10 * most,
    sent: most + 1,
    admitted: most,
    refused: 1,
    failed: 0,
    mostInAnyWindow: most,
    mostPossible: most,
    excess: most / 2,
    firstSecond: most,
    firstRefusalAfter: 5 + 10 * most,
    lateness: 0.25,
    worstWindow: window,
    requests
  }
  return {
    target: 'http://127.0.0.1:3000/items',
    startedAt: '2026-11-30T12:00:00.000Z',
    took: 2500,
    promise: { quota: 2, window: 2, policy: 'p', source: 'fields', others: [] },
    attacks: [attack],
    worst: {
      name: 'drained',
      mostInAnyWindow: most,
      mostPossible: most,
      excess: most / 2,
      window,
      evidence: requests.slice(0, most)
    },
    limiter: {
      kind: 'fixed',
      title: 'a fixed window',
      capacity: 2,
      refill: 1,
      because: 'it admitted 1 at the end of a window and 2 at the start of the next one'
    },
    fields: {
      seen: [{ name: 'retry-after', admitted: null, refused: '2' }],
      checks: [
        {
          name: 'units-left',
          question: 'Is what is left admitted?',
          answer: 'true',
          seen: 3,
          wrong: 0,
          detail: '3 times'
        },
        {
          name: 'retry-after',
          question: 'Is who waits for Retry-After admitted?',
          answer: 'false',
          seen: 2,
          wrong: 1,
          detail: 'told to wait 1 s, it was refused again after 1.000 s'
        },
        {
          name: 'not-cacheable',
          question: 'Does no cache keep a refusal?',
          answer: 'careful',
          seen: 1,
          wrong: 0,
          detail: '1 of 1 refusals have no Cache-Control: no-store'
        },
        {
          name: 'body-names-policy',
          question: 'Does a refusal name its policy?',
          answer: 'unseen',
          seen: 0,
          wrong: 0,
          detail: 'nothing to judge by'
        }
      ]
    },
    promiseKept: most <= 2,
    notes: ['edge-burst was left out: it would take more than 8 s in all (--max-time).']
  }
}
