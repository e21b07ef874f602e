import t from 'tap'
import { settle } from './settling.js'

/** Takes the milliseconds of CPU. */
function work(milliseconds: number): void {
  const before = process.cpuUsage()
  for (let done = 0; done < milliseconds * 1000;) {
    const { user, system } = process.cpuUsage(before)
    done = user + system
  }
}

t.test('a loop that is slow at first is run more often than took a batch then', async t => {
  const asked: number[] = []
  const times = await settle(
    times => {
      // A loop of which a million take a second, once it has come to be quick.
      work(asked.length < 3 ? 20 : times / 1000)
      asked.push(times)
    },
    4e6,
    10
  )
  t.equal(asked[0], 100)
  t.ok(times > 1000, `${times}`)
  t.equal(times, asked.at(-1))
})

t.test('a loop has so many runs to settle, however long they take', async t => {
  const asked: number[] = []
  const times = await settle(
    times => {
      asked.push(times)
      work(2)
    },
    1e6,
    20
  )
  t.strictSame(asked, Array<number>(20).fill(100))
  t.equal(times, 100)
})
