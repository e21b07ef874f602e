import type { FastifyBaseLogger } from 'fastify'

const REPORT_EVERY = 60_000

/**
 * Reports that a function the operator wrote has failed: with the option's name, and at most once a minute for each, so
 * that a fault on every request does not fill the disk. The request goes on by the rule that `consequence` states.
 */
export class OperatorFaults {
  readonly #last = new Map<string, number>()

  report(log: FastifyBaseLogger, option: string, error: unknown, consequence: string): void {
    const now = performance.now()
    if (now - (this.#last.get(option) ?? -REPORT_EVERY) < REPORT_EVERY) return
    this.#last.set(option, now)
    log.error({ err: error, option }, `fastify-quota: ${option} failed, so ${consequence}`)
  }
}
