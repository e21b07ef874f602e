import { availableParallelism } from 'node:os'
import t from 'tap'
import type { Test } from 'tap'
import { audit } from '../../src/audit/index.js'
import type { AuditResult } from '../../src/audit/index.js'
import type { PolicyOptions } from '../../src/index.js'
import { busy, server } from '../fixtures/audit/processes.js'

/*
 * Audits in real time, of servers in processes of their own. A promise that is kept must look kept however busy the machine
 * is. One that is broken may look less broken on a busy machine, so its figures are taken with the best of a few tries.
 */

t.setTimeout(3_600_000)

const QUOTA = 10
const REPEATS = Number(process.env['AUDIT_REPEATS'] ?? 20)
const TRIES = 3

/** Audits at the same time, each of a server of its own: they keep the machine busy as well. */
const AT_ONCE = 4

const FIGURES: readonly (readonly [number, string, Partial<PolicyOptions>])[] = [
  [10, 'log', { algorithm: 'sliding-window' }],
  [10, 'log', { algorithm: 'sliding-window-log' }],
  [20, 'fixed', { algorithm: 'fixed-window' }],
  [20, 'fixed', { algorithm: 'fixed-window', align: true }],
  [20, 'counter', { algorithm: 'sliding-window-counter', precision: 1 }],
  [20, 'counter', { algorithm: 'sliding-window-counter', precision: 10 }],
  [19, 'bucket', { algorithm: 'token-bucket' }],
  [19, 'bucket', { algorithm: 'leaky-bucket' }]
]

for (const [most, kind, options] of FIGURES) {
  const name = Object.values(options).map(String).join(', ')
  await t.test(`10 per 2s of ${name} admit ${most} in some window, within one request`, async t => {
    const url = await server(t, { quota: QUOTA, window: '2s', ...options })
    const right = ({ worst, limiter }: AuditResult): boolean =>
      Math.abs(worst.mostInAnyWindow - most) <= 1 && limiter.kind === kind
    const result = await bestOf(TRIES, url, right)
    t.comment(`${name}: ${result.worst.mostInAnyWindow} by ${result.worst.name}, ${result.limiter.title}`)
    t.ok(Math.abs(result.worst.mostInAnyWindow - most) <= 1, `${result.worst.mostInAnyWindow}`)
    t.equal(result.limiter.kind, kind)
    t.equal(result.promiseKept, most === QUOTA)
    t.strictSame(
      result.fields.checks.filter(({ answer }) => answer === 'false'),
      []
    )
  })
}

await t.test(`an honest limiter is never accused, ${REPEATS} times on a busy machine`, async t => {
  busy(t, availableParallelism())
  let measured = 0
  for (let done = 0; done < REPEATS; done += AT_ONCE) {
    const audits = Array.from({ length: AT_ONCE }, async (_, i) => {
      const algorithm = i % 2 === 0 ? 'sliding-window' : 'sliding-window-log'
      return audit({ url: await server(t, { quota: QUOTA, window: '1s', algorithm }) })
    })
    for (const { status, ...ended } of await Promise.allSettled(audits)) {
      if (status === 'fulfilled') {
        measured++
        notAccused(t, (ended as { readonly value: AuditResult }).value)
      } else {
        t.match(ended, { reason: { code: 'CANNOT_MEASURE' } }, 'that it cannot measure is no accusation')
      }
    }
  }
  t.ok(measured >= REPEATS / 2, `${measured} of ${REPEATS} could be measured`)
})

function notAccused(t: Test, { promiseKept, worst, fields, attacks }: AuditResult): void {
  const late = Math.max(...attacks.map(({ lateness }) => lateness))
  t.comment(`${worst.mostInAnyWindow} sure, ${worst.mostPossible} possible, up to ${late} ms late`)
  t.ok(promiseKept)
  t.ok(worst.mostInAnyWindow <= QUOTA)
  t.strictSame(
    fields.checks.filter(({ answer }) => answer === 'false'),
    []
  )
}

async function bestOf(
  tries: number,
  url: string,
  right: (result: AuditResult) => boolean
): Promise<AuditResult> {
  const result = await audit({ url })
  return right(result) || tries === 1 ? result : bestOf(tries - 1, url, right)
}
