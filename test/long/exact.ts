import t from 'tap'
import { ALGORITHMS, processes } from '../fixtures/exact/run.js'
import { startRedis } from '../redis/servers.js'

t.setTimeout(3_600_000)

const server = await startRedis(t)
const REPEATS = Number(process.env['EXACT_REPEATS'] ?? 20)
const QUOTA = 2000
const lines = ['algorithm                 repeats  quota  admitted  over  charged in part']

for (const algorithm of ALGORITHMS) {
  t.test(`${algorithm}: six processes with 16 requests each are admitted the quota together`, async t => {
    const exhaust = await processes(t, {
      port: server.port,
      algorithm,
      quota: QUOTA,
      processes: 6,
      inFlight: 16
    })
    let admitted = 0
    let over = 0
    let inPart = 0
    for (let repeat = 0; repeat < REPEATS; repeat++) {
      await server.command('FLUSHALL')
      const { told, counted } = await exhaust()
      admitted += told
      over += Math.max(0, told - QUOTA)
      inPart += counted.reduce((sum, units) => sum + Math.abs(units - told), 0)
    }
    t.equal(admitted, REPEATS * QUOTA)
    t.equal(over, 0)
    t.equal(inPart, 0)
    const cells = [REPEATS, QUOTA, admitted, over, inPart].map((cell, i) =>
      String(cell).padStart([9, 7, 10, 6, 17][i]!)
    )
    lines.push(algorithm.padEnd(24) + cells.join(''))
  })
}

t.test('all together', async t => t.comment(`\n${lines.join('\n')}`))
