import t from 'tap'
import * as exported from '../src/errors.js'

const { asError, ...errors } = exported

t.test(
  'each error has its name as code, the sentence as message and the status of a server error',
  async t => {
    t.strictSame(Object.keys(errors).sort(), [
      'FST_QUOTA_OPTION',
      'FST_QUOTA_POLICY',
      'FST_QUOTA_ROUTE',
      'FST_QUOTA_SETTLED',
      'FST_QUOTA_STORE',
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

t.test('whatever was thrown is an error, and what is one stays itself', async t => {
  const broken = new TypeError('broken')
  t.equal(asError(broken), broken)
  for (const thrown of ['broken', 429, undefined, null, {}]) {
    const error = asError(thrown)
    t.ok(error instanceof Error)
    t.equal(error.message, 'a request could not be decided')
    t.equal(error.cause, thrown)
  }
})
