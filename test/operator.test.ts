import type { FastifyBaseLogger } from 'fastify'
import t from 'tap'
import { OperatorFaults } from '../src/operator.js'
import { stopProcessTime } from './plugin/kit.js'

t.test('a fault is logged with its option and what follows, once a minute for each option', async t => {
  const clock = stopProcessTime(t)
  const lines: unknown[] = []
  const log = { error: (...line: unknown[]) => lines.push(line) } as unknown as FastifyBaseLogger
  const faults = new OperatorFaults()
  const error = new Error('of the operator')
  faults.report(log, 'identify.user', error, 'the request counts by its address')
  t.strictSame(lines, [
    [
      { err: error, option: 'identify.user' },
      'fastify-quota: identify.user failed, so the request counts by its address'
    ]
  ])
  faults.report(log, 'identify.user', error, '')
  clock.pass(59_999)
  faults.report(log, 'identify.user', error, '')
  t.equal(lines.length, 1)
  faults.report(log, 'problem', error, '')
  t.equal(lines.length, 2)
  clock.pass(1)
  faults.report(log, 'identify.user', error, '')
  t.equal(lines.length, 3)
})
