import t from 'tap'
import { ALGORITHMS, processes } from '../../fixtures/exact/run.js'
import { startRedis } from '../../redis/servers.js'

t.setTimeout(120_000)

const server = await startRedis(t)
const QUOTA = 300

for (const algorithm of ALGORITHMS) {
  t.test(
    `${algorithm}: two processes are admitted the quota together, and nothing is charged in part`,
    async t => {
      await server.command('FLUSHALL')
      const load = { port: server.port, algorithm, quota: QUOTA, processes: 2, inFlight: 16 }
      const exhaust = await processes(t, load)
      t.strictSame(await exhaust(), { told: QUOTA, counted: [QUOTA, QUOTA, QUOTA] })
    }
  )
}
