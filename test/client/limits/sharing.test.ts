import t from 'tap'
import { Sharing } from '../../../src/client/limits/sharing.js'

t.test('nobody else is there until somebody is', async t => {
  const sharing = new Sharing()
  t.equal(sharing.ratio, 0)
  sharing.observe(0, 1)
  t.equal(sharing.ratio, 0)
})

t.test('others are known by what they spend while this client spends one', async t => {
  const sharing = new Sharing()
  for (let i = 0; i < 10; i++) sharing.observe(3, 1)
  t.equal(Math.round(sharing.ratio * 1000), 3000)
})

t.test('what others spend now and then is not worth mentioning', async t => {
  const sharing = new Sharing()
  for (let i = 0; i < 20; i++) sharing.observe(i % 4 === 0 ? 1 : 0, 1)
  t.equal(sharing.ratio, 0)
})

t.test('others who are gone are forgotten', async t => {
  const sharing = new Sharing()
  sharing.observe(3, 1)
  t.ok(sharing.ratio > 2)
  for (let i = 0; i < 10; i++) sharing.observe(0, 1)
  t.equal(sharing.ratio, 0)
})

t.test('who spends nothing cannot tell how much others spend meanwhile', async t => {
  const sharing = new Sharing()
  sharing.observe(3, 0)
  t.equal(sharing.ratio, 0)
})
