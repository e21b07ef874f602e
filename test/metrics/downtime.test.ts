import t from 'tap'
import { Downtime } from '../../src/metrics/downtime.js'
import { Clock } from '../plugin/kit.js'

t.test('it runs from the first start to the first stop, again and again', async t => {
  const clock = new Clock()
  const downtime = new Downtime(clock.read)
  const after = (ms: number): number => {
    clock.pass(ms)
    return downtime.total
  }
  t.equal(after(10), 0)
  downtime.start()
  t.equal(after(20), 20)
  downtime.start()
  t.equal(after(5), 25)
  downtime.stop()
  t.equal(after(100), 25)
  downtime.stop()
  t.equal(after(100), 25)
  downtime.start()
  t.equal(after(1), 26)
})
