import type { Proxy } from '../redis/proxy.js'
import type { RedisServer } from '../redis/servers.js'

/** What can go wrong. */
export interface Parts {
  readonly redis: RedisServer
  /** Between the app and Redis, unless the app is connected directly. */
  readonly proxy: Proxy
}

export interface Fault {
  readonly name: string
  /** Begins it, and returns what ends it. */
  readonly begin: (parts: Parts) => End | Promise<End>
  /** Redis is down before the app starts. */
  readonly atBoot?: true
  /** The app reaches Redis without the proxy: a server that is down refuses connections. */
  readonly direct?: true
  /** The app hears nothing from Redis in time. */
  readonly silent?: true
  /** It is over at once: some or all requests may not notice. */
  readonly momentary?: true
  /** Codes of the process warnings that it leads to. */
  readonly warns?: readonly string[]
  /** Redis forgets what it has counted, so that the quota can be spent once more. */
  readonly forgets?: true
}

export type End = () => void | Promise<unknown>

/** Milliseconds. */
const LATENCY = 300
const BETWEEN_CUTS = 400

/** Nobody listens there. */
const NOWHERE = ['127.0.0.1', '1'] as const

const over: End = () => {}

export const faults: readonly Fault[] = [
  {
    name: 'hangs (SIGSTOP)',
    silent: true,
    begin: ({ redis }) => {
      redis.pause()
      return () => redis.resume()
    }
  },
  {
    name: 'killed, started again',
    silent: true,
    direct: true,
    begin: async ({ redis }) => {
      await redis.kill()
      return () => redis.restart()
    }
  },
  {
    name: `${LATENCY} ms of latency`,
    silent: true,
    begin: ({ proxy }) => {
      proxy.delay = LATENCY / 2
      return () => void (proxy.delay = 0)
    }
  },
  {
    name: 'replies are lost',
    silent: true,
    begin: ({ proxy }) => {
      proxy.dropReplies(true)
      return () => proxy.dropReplies(false)
    }
  },
  {
    name: 'connections cut once',
    momentary: true,
    begin: ({ proxy }) => {
      proxy.cut()
      return over
    }
  },
  {
    name: `connections cut each ${BETWEEN_CUTS} ms`,
    begin: ({ proxy }) => {
      proxy.cut()
      const timer = setInterval(() => proxy.cut(), BETWEEN_CUTS)
      return () => clearInterval(timer)
    }
  },
  {
    name: 'READONLY',
    warns: ['FST_QUOTA_REDIS_REPLICA'],
    begin: async ({ redis }) => {
      await redis.command('REPLICAOF', ...NOWHERE)
      return () => redis.command('REPLICAOF', 'NO', 'ONE')
    }
  },
  {
    name: 'OOM',
    begin: async ({ redis }) => {
      await redis.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction', 'maxmemory', '1')
      return () => redis.command('CONFIG', 'SET', 'maxmemory', '0')
    }
  },
  {
    name: 'FLUSHALL, SCRIPT FLUSH',
    momentary: true,
    forgets: true,
    begin: async ({ redis }) => {
      await redis.command('FLUSHALL')
      await redis.command('SCRIPT', 'FLUSH')
      return over
    }
  },
  {
    name: 'down at boot',
    direct: true,
    atBoot: true,
    begin:
      ({ redis }) =>
      () =>
        redis.restart()
  }
]
