import t from 'tap'
import { clients } from './clients/index.js'
import { Servers } from './servers.js'

/** Those of package.json, and ours: the others are not on every machine. */
const always = clients.filter(({ name, packages }) => packages.length > 0 || name === 'fastify-quota/client')

const servers = new Servers(60_000)
t.teardown(() => servers.close())
t.jobs = always.length

for (const client of always) {
  t.test(`${client.name} waits as long as it is told, and is served then`, async t => {
    // Untold, all but ours would be back sooner.
    const { refusals, end } = await servers.see(client, { wait: 2, options: { legacy: client.legacy } })
    t.strictSame({ refusals, end }, { refusals: 1, end: 'served' })
  })
}

for (const client of always.filter(({ heedsHint }) => heedsHint)) {
  t.test(`${client.name} does not try again when it is told not to`, async t => {
    const sight = await servers.see(client, { wait: 2, options: { legacy: client.legacy, sdkHints: true } })
    t.strictSame(sight, { refusals: 1, returns: [], end: 'gave up' })
  })
}
