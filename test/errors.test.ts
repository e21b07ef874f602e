import t from 'tap'
import * as errors from '../src/errors.js'

t.test(
  'each error has its name as code, the sentence as message and the status of a server error',
  async t => {
    t.strictSame(Object.keys(errors).sort(), [
      'FST_QUOTA_OPTION',
      'FST_QUOTA_POLICY',
      'FST_QUOTA_ROUTE',
      'FST_QUOTA_SUBJECT'
    ])
    for (const [code, QuotaError] of Object.entries(errors)) {
      const error = new QuotaError('quota must be an integer, got "%s %d %"')
      t.ok(error instanceof Error, code)
      t.match(error, {
        name: 'FastifyError',
        code,
        statusCode: 500,
        message: 'quota must be an integer, got "%s %d %"'
      })
    }
  }
)
