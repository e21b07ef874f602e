import t from 'tap'
import { QuotaOptionError, QuotaQueueError, QuotaWaitError } from '../../src/client/index.js'

t.test('errors have a name, a code and a sentence', async t => {
  const retryAt = new Date(Date.UTC(2026, 10, 30))
  t.match(new QuotaWaitError(retryAt, ['a', 'b']), {
    name: 'QuotaWaitError',
    code: 'QUOTA_WAIT',
    retryAt,
    policies: ['a', 'b'],
    message:
      'Quota "a" and "b" has no room for this request before 2026-11-30T00:00:00.000Z, which is more than maxWait away'
  })
  t.match(new QuotaWaitError(retryAt, []).message, /^The server has no room for this request before 2026/)
  t.match(new QuotaQueueError('http://api.test', 5), {
    name: 'QuotaQueueError',
    code: 'QUOTA_QUEUE',
    message: '5 requests to http://api.test wait already, which is all that queue allows'
  })
  t.match(new QuotaOptionError('no'), { name: 'QuotaOptionError', code: 'QUOTA_OPTION', message: 'no' })
  t.ok(new QuotaOptionError('no') instanceof TypeError)
})
