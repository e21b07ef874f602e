import t from 'tap'
import { CannotMeasureError } from '../../src/audit/errors.js'

t.test('the error of an audit that cannot measure has a code and a name', async t => {
  const error = new CannotMeasureError('nobody answers')
  t.match(error, { code: 'CANNOT_MEASURE', name: 'CannotMeasureError', message: 'nobody answers' })
  t.ok(error instanceof Error)
})
