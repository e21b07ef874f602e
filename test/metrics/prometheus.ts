import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Owner } from '../redis/servers.js'

const HOST = '127.0.0.1'

/** Minutes that are waited for something, and at least so many milliseconds. */
const PATIENCE = { minutes: 30, least: 60_000 }

/** Scrapes and evaluations of rules in a minute: each 15 s, which is usual. */
const IN_A_MINUTE = 4

/** Minutes for which a sample is the latest one, by default. */
const LOOKBACK = 5

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

/** Somebody who is scraped. */
export interface Target {
  /** Of this machine. */
  readonly port: number
  readonly job: string
  readonly instance: string
}

export interface Setup {
  readonly targets: readonly Target[]
  /** Rules, as YAML, at this pace already. */
  readonly rules: string
  /** Milliseconds that stand for a minute. */
  readonly minute: number
}

/** Milliseconds of the epoch. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** An alert that fired, from its first evaluation to its last. */
export interface Firing extends Span {
  /** With the instance, if it is about one. */
  readonly alert: string
}

type Labels = Readonly<Record<string, string>>

export interface Series {
  readonly labels: Labels
  /** Numbers only, with milliseconds of the epoch. */
  readonly points: readonly (readonly [time: number, value: number])[]
}

/** A rule, and what became of it. */
export interface Rule {
  readonly name: string
  /** `ok`, if its last evaluation was. */
  readonly health: string
}

/** A Prometheus in a process of its own. */
export class Prometheus {
  /** Milliseconds between two scrapes, and between two evaluations. */
  readonly interval: number
  readonly #origin: string

  private constructor(origin: string, interval: number) {
    this.#origin = origin
    this.interval = interval
  }

  static async start(owner: Owner, { targets, rules, minute }: Setup): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), 'fastify-quota-prometheus-'))
    const interval = minute / IN_A_MINUTE
    const every = `${interval}ms`
    const config = {
      global: { scrape_interval: every, scrape_timeout: every, evaluation_interval: every },
      rule_files: ['rules.yml'],
      scrape_configs: [
        {
          job_name: 'all',
          static_configs: targets.map(({ port, ...labels }) => ({ targets: [`${HOST}:${port}`], labels }))
        }
      ]
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
        `--query.lookback-delta=${LOOKBACK * minute}ms`,
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
    const prometheus = new Prometheus(`http://${address}`, interval)
    await prometheus.#patiently(
      () => 'a Prometheus that is ready',
      () => prometheus.#isReady()
    )
    return prometheus
  }

  /** Waits until each of these alerts has fired, whether others do or not. */
  async awaitFiring(alerts: readonly string[]): Promise<void> {
    const missing = new Set(alerts)
    await this.#patiently(
      () => `${[...missing].join(', ')} to fire`,
      async () => {
        for (const alert of await this.#alerts()) if (alert.state === 'firing') missing.delete(nameOf(alert))
        return missing.size === 0
      }
    )
  }

  /** Waits until none of these alerts fires, or is about to. */
  async awaitEnd(alerts: readonly string[]): Promise<void> {
    let left = alerts
    await this.#patiently(
      () => `the end of ${left.join(', ')}`,
      async () => {
        const active = (await this.#alerts()).map(nameOf)
        left = alerts.filter(alert => active.includes(alert))
        return left.length === 0
      }
    )
  }

  /** Waits until a query gives a number that is more than 0. */
  async awaitMore(query: string): Promise<void> {
    await this.#patiently(
      () => query,
      async () => {
        const { result } = await this.#get<{ result: readonly { value: Sample }[] }>('query', { query })
        return result.some(({ value }) => Number(value[1]) > 0)
      }
    )
  }

  /** The alerts that fired in a span of time, each time by itself. */
  async firings(span: Span): Promise<readonly Firing[]> {
    const series = await this.series('ALERTS{alertstate="firing"}', span)
    return series.flatMap(({ labels, points }) =>
      runs(
        points.map(([time]) => time),
        this.interval
      ).map(run => ({ ...run, alert: nameOf({ labels }) }))
    )
  }

  /** What a query gives in a span of time, at each scrape. */
  async series(query: string, { from, to }: Span): Promise<readonly Series[]> {
    const span = { start: String(from / 1000), end: String(to / 1000), step: String(this.interval / 1000) }
    const { result } = await this.#get<{ result: readonly Matrix[] }>('query_range', { query, ...span })
    return result.map(({ metric, values }) => ({
      labels: metric,
      points: values
        .map(([time, value]) => [time * 1000, Number(value)] as const)
        .filter(([, value]) => Number.isFinite(value))
    }))
  }

  /** The values that a label has in the series of a metric. */
  valuesOf(label: string, metric: string): Promise<readonly string[]> {
    return this.#get(`label/${label}/values`, { 'match[]': metric })
  }

  async rules(): Promise<readonly Rule[]> {
    const { groups } = await this.#get<{ groups: readonly { rules: readonly Rule[] }[] }>('rules', {})
    return groups.flatMap(({ rules }) => rules)
  }

  async #patiently(what: () => string, look: () => Promise<boolean>): Promise<void> {
    const patience = Math.max(PATIENCE.least, PATIENCE.minutes * IN_A_MINUTE * this.interval)
    for (const end = performance.now() + patience; performance.now() < end; await sleep(50)) {
      if (await look()) return
    }
    throw new Error(`waited in vain for ${what()}`)
  }

  async #alerts(): Promise<readonly Alert[]> {
    return (await this.#get<{ alerts: readonly Alert[] }>('alerts', {})).alerts
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

type Sample = readonly [time: number, value: string]

interface Alert {
  readonly state: string
  readonly labels: Labels
}

interface Matrix {
  readonly metric: Labels
  readonly values: readonly Sample[]
}

/** An alert and the instance that it is about, if it is about one. */
function nameOf({ labels }: { readonly labels: Labels }): string {
  const { alertname = '', instance } = labels
  return instance === undefined ? alertname : `${alertname} ${instance}`
}

/** Times that follow each other, as spans. */
function runs(times: readonly number[], interval: number): readonly Span[] {
  const spans: { from: number; to: number }[] = []
  for (const time of times) {
    const last = spans.at(-1)
    if (last !== undefined && time - last.to < 1.5 * interval) last.to = time
    else spans.push({ from: time, to: time })
  }
  return spans
}

async function freePort(): Promise<number> {
  const server = createServer()
  await once(server.listen(0, HOST), 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}
