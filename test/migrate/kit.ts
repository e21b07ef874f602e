import rateLimit from '@fastify/rate-limit'
import type { RateLimitOptions, RateLimitPluginOptions } from '@fastify/rate-limit'
import Fastify from 'fastify'
import type { FastifyInstance, FastifyServerOptions, InjectOptions, LightMyRequestResponse } from 'fastify'
import type { Test } from 'tap'
import quota from '../../src/index.js'
import { fromFastifyRateLimit } from '../../src/migrate.js'

/** The time of both limiters: theirs reads `Date`, ours has a clock. */
export class CommonTime {
  now: number = Date.UTC(2026, 10, 30)

  constructor(t: Test) {
    const real = Date.now
    Date.now = () => this.now
    t.teardown(() => {
      Date.now = real
    })
  }

  pass(ms: number): void {
    this.now += ms
  }
}

export type RouteConfig = RateLimitOptions | false | undefined

/** An app as somebody has written it for `@fastify/rate-limit`. */
export interface Written {
  readonly options?: RateLimitPluginOptions
  /** `config.rateLimit` by path; `/` has none unless it is here. */
  readonly routes?: Readonly<Record<string, RouteConfig>>
  readonly fastify?: FastifyServerOptions
  /** What else it does, before and after the limiter is registered. */
  readonly before?: (app: FastifyInstance) => void
  readonly after?: (app: FastifyInstance) => void
}

export type Limiter = 'theirs' | 'ours'

/** The app with the limiter it was written for, or with this one and its options moved. */
export async function opened(
  t: Test,
  limiter: Limiter,
  time: CommonTime,
  written: Written
): Promise<FastifyInstance> {
  const { options = {}, routes = {}, fastify = {}, before, after } = written
  const app = Fastify(fastify) as unknown as FastifyInstance
  t.teardown(() => app.close())
  before?.(app)
  if (limiter === 'theirs') await app.register(rateLimit, options)
  else await app.register(quota, { ...fromFastifyRateLimit(options), clock: () => time.now })
  after?.(app)
  for (const [url, config] of Object.entries({ '/': undefined, ...routes })) {
    app.get(url, { config: config === undefined ? {} : { rateLimit: config } }, async () => 'served')
  }
  return app
}

export type Step = string | InjectOptions | { readonly wait: number }

const NAMES = [
  ['limit', /^(?:x-)?ratelimit-limit$/],
  ['remaining', /^(?:x-)?ratelimit-remaining$/],
  ['reset', /^(?:x-)?ratelimit-reset$/],
  ['retry', /^retry-after$/]
] as const

/** An answer on a line: its status and the numbers of the older fields. */
export function lineOf({ statusCode, headers }: LightMyRequestResponse): string {
  const fields = NAMES.flatMap(([name, pattern]) =>
    Object.entries(headers).flatMap(([field, value]) =>
      pattern.test(field) ? `${name}=${String(value)}` : []
    )
  )
  return [statusCode, ...fields].join(' ')
}

/** Takes an app through some steps. */
export async function walk(
  app: FastifyInstance,
  time: CommonTime,
  steps: readonly Step[],
  show: (answer: LightMyRequestResponse) => string
): Promise<readonly string[]> {
  const lines: string[] = []
  for (const step of steps) {
    if (typeof step === 'object' && 'wait' in step) time.pass(step.wait)
    else lines.push(show(await app.inject(step)))
  }
  return lines
}

export const from = (address: string, url: string = '/'): InjectOptions => ({ url, remoteAddress: address })

export const as = (user: string, url: string = '/'): InjectOptions => ({ url, headers: { 'x-user': user } })

export const times = (count: number, step: Step = '/'): readonly Step[] => Array<Step>(count).fill(step)
