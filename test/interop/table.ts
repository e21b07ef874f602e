import { monitorEventLoopDelay } from 'node:perf_hooks'
import { parseArgs } from 'node:util'
import type { QuotaOptions } from 'fastify-quota'
import { clients } from './clients/index.js'
import type { Client } from './client.js'
import { unmet } from './demands.js'
import { forms } from './forms.js'
import { runNewest } from './newest.js'
import { aloneTable, longTable, shortTable } from './report.js'
import type { Installed } from './report.js'
import { Servers } from './servers.js'
import type { Sight } from './servers.js'

/*
 * Has clients of all kinds call real servers whose quota is used up, all at once, and prints what each of them makes of
 * the wait that it is told. Ends with 1 if one comes back early where that is not its own doing. `--newest` does it with
 * the newest versions of all that comes from npm.
 */

/** Seconds to wait. */
const ALONE = 3
const SHORT = [2, 3, 4, 5, 6]
const LONG = 90

/** Milliseconds that a client may be late. */
const PATIENCE = 5000

/** Milliseconds that an event loop is late where nothing is wrong; later, all that is told of times is. */
const BUSY = 1000

const servers = new Servers(PATIENCE)
const { values } = parseArgs({ options: { newest: { type: 'boolean' } } })
process.exitCode = values.newest === true ? await runNewest() : await compare()

async function compare(): Promise<number> {
  const start = performance.now()
  const installed = await find()
  const delays = monitorEventLoopDelay()
  delays.enable()
  console.log(`Node.js ${process.versions.node}\n`)

  const longs = each(installed, client => called(client, LONG))
  const hinteds = each(installed, client => called(client, LONG, { sdkHints: true }))
  const alones = await each(installed, toldByOneForm)
  console.log(`${aloneTable(ALONE, installed, alones)}\n`)
  const shorts = await each(installed, client => each(SHORT, wait => called(client, wait)))
  console.log(`${shortTable(SHORT, installed, shorts)}\n`)
  const [long, hinted] = await Promise.all([longs, hinteds])
  console.log(`${longTable(LONG, installed, long, hinted)}\n`)

  await servers.close()

  const demands = installed.flatMap((client, i) =>
    unmet(client, { alone: alones[i]!, short: shorts[i]!, long: long[i]!, hinted: hinted[i]! })
  )
  const late = delays.max / 1e6
  if (late > BUSY)
    console.log(`The machine was busy: all may be ${Math.ceil(late)} ms late, and seem to wait.`)
  console.log(`${Math.round((performance.now() - start) / 1000)} s, ${demands.length} demands not met`)
  for (const demand of demands) console.log(`  ${demand}`)
  return demands.length === 0 ? 0 : 1
}

async function find(): Promise<readonly Installed[]> {
  const versions = await each(clients, client => client.find())
  return clients.flatMap((client, i) => {
    const version = versions[i]
    if (version !== undefined) return [{ ...client, version }]
    console.log(`${client.name} is not on this machine, and left out.`)
    return []
  })
}

function each<T, R>(all: readonly T[], work: (one: T) => Promise<R>): Promise<readonly R[]> {
  return Promise.all(all.map(work))
}

function toldByOneForm(client: Client): Promise<readonly Sight[]> {
  return each(forms, ({ options, fields }) => servers.see(client, { wait: ALONE, options, only: fields }))
}

function called(client: Client, wait: number, hints: Pick<QuotaOptions, 'sdkHints'> = {}): Promise<Sight> {
  return servers.see(client, { wait, options: { legacy: client.legacy, ...hints } })
}
