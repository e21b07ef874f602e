import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { aptInstall, isOnPath, planPackages, thisMachine } from '../installing.js'
import type { Owner } from '../redis/servers.js'

const HOST = '127.0.0.1'
const PROGRAMS = ['prometheus', 'promtool'] as const
const PATIENCE = 60_000

/** Why there is nothing to test with; `false`: there is. As root on Debian, Prometheus is installed where it is missing. */
export function noPrometheus(): string | false {
  const has = (): boolean => PROGRAMS.every(isOnPath)
  const plan = planPackages(has() ? [] : ['prometheus'], thisMachine())
  if (typeof plan === 'object') aptInstall(plan.packages)
  return has() ? false : 'prometheus and promtool are not on the PATH: apt-get install prometheus'
}

/** What `promtool` says about files or what it is given; rejects if it objects. */
export async function promtool(args: readonly string[], input: string = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile('promtool', args, (error, stdout, stderr) => {
      if (error === null) resolve(`${stdout}${stderr}`)
      else reject(new Error(`${stdout}${stderr}`, { cause: error }))
    })
    child.stdin!.end(input)
  })
}

export interface Setup {
  /** Ports of this machine that are scraped each second. */
  readonly ports: readonly number[]
  /** Rules, as YAML. */
  readonly rules: string
}

/** A rate is a number when a counter was scraped twice. */
const SEEN = 'sum(rate(fastify_quota_decisions_total[5s])) > 0'

/** Milliseconds of the epoch. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** A Prometheus in a process of its own. */
export class Prometheus {
  readonly #origin: string

  private constructor(origin: string) {
    this.#origin = origin
  }

  static async start(owner: Owner, { ports, rules }: Setup): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), 'fastify-quota-prometheus-'))
    const targets = ports.map(port => `${HOST}:${port}`)
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: ['rules.yml'],
      scrape_configs: [{ job_name: 'api', static_configs: [{ targets }] }]
    }
    writeFileSync(join(folder, 'rules.yml'), rules)
    // What is JSON is YAML.
    writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config))
    const address = `${HOST}:${await freePort()}`
    const child = spawn(
      'prometheus',
      [
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=${address}`,
        '--log.level=warn'
      ],
      { stdio: ['ignore', 'inherit', 'inherit'] }
    )
    const ended = once(child, 'exit')
    owner.teardown(async () => {
      child.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
    })
    const prometheus = new Prometheus(`http://${address}`)
    await patiently('a Prometheus that is ready', () => prometheus.#isReady())
    return prometheus
  }

  /** Names of the alerts that fire. */
  async firing(): Promise<ReadonlySet<string>> {
    const { alerts } = await this.#get<{ alerts: readonly Alert[] }>('alerts', {})
    return new Set(alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname))
  }

  /** Waits until an alert fires, or no longer does. */
  async awaitAlert(name: string, state: 'firing' | 'clear'): Promise<void> {
    await patiently(
      `${name} to be ${state}`,
      async () => (await this.firing()).has(name) === (state === 'firing')
    )
  }

  /** Waits until decisions are known and no alert fires. */
  async awaitCalm(): Promise<void> {
    const now = (): Span => ({ from: Date.now(), to: Date.now() })
    await patiently('numbers', async () => (await this.numbersOf(SEEN, now())) > 0)
    await patiently('no alert', async () => (await this.firing()).size === 0)
  }

  /** How many numbers a query gives in a span of time, one a second and series. */
  async numbersOf(query: string, { from, to }: Span): Promise<number> {
    const span = { start: String(from / 1000), end: String(to / 1000), step: '1' }
    const { result } = await this.#get<{ result: readonly Series[] }>('query_range', { query, ...span })
    return result.flatMap(({ values }) => values).filter(([, value]) => Number.isFinite(Number(value))).length
  }

  async #isReady(): Promise<boolean> {
    return (await fetch(`${this.#origin}/-/ready`).catch(() => undefined))?.ok === true
  }

  async #get<T>(path: string, parameters: Readonly<Record<string, string>>): Promise<T> {
    const response = await fetch(
      `${this.#origin}/api/v1/${path}?${new URLSearchParams(parameters).toString()}`
    )
    const { data, error } = (await response.json()) as { data: T; error?: string }
    if (error !== undefined) throw new Error(error)
    return data
  }
}

interface Alert {
  readonly state: string
  readonly labels: { readonly alertname: string }
}

interface Series {
  readonly values: readonly (readonly [time: number, value: string])[]
}

/** The rules of a file with seconds for minutes: what takes five minutes takes five seconds. */
export const hurried = (file: string): string =>
  readFileSync(file, 'utf8').replaceAll(/(\[|for: |offset )(\d+)m\b/g, (_, before: string, count: string) => {
    const seconds = before === 'for: ' ? 1 : Math.max(3, Number(count))
    return `${before}${seconds}s`
  })

async function freePort(): Promise<number> {
  const server = createServer()
  await once(server.listen(0, HOST), 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}

async function patiently(what: string, look: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + PATIENCE; performance.now() < end; await sleep(200)) {
    if (await look()) return
  }
  throw new Error(`waited in vain for ${what}`)
}
