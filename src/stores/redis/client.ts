import type { Socket } from 'node:net'

/**
 * What the store needs of a Redis client: those of ioredis and iovalkey have it, and with them that of `@fastify/redis`, for
 * one server, Sentinel or Cluster.
 */
export interface RedisClient {
  readonly status: string
  readonly options: object
  defineCommand(name: string, definition: { readonly lua: string; readonly numberOfKeys: number }): void
  duplicate(...options: never[]): unknown
  connect(): Promise<unknown>
  disconnect(): void
  info(): Promise<string>
  on(event: string, listener: (told: unknown) => void): unknown
  off(event: string, listener: (told: unknown) => void): unknown
}

/** A client of a cluster knows which node serves a slot: `host:port`, the master first. */
export interface ClusterClient extends RedisClient {
  readonly isCluster: true
  readonly slots: readonly (readonly string[])[]
  nodes(): readonly RedisClient[]
  /** Asks the nodes, unless it is just doing that. */
  refreshSlotsCache(): void
}

export function isCluster(client: RedisClient): client is ClusterClient {
  return (client as Partial<ClusterClient>).isCluster === true
}

/** Milliseconds. */
const CONNECT = 1000
const DISCONNECT = 100
const SILENCE = 1000
const LONGEST_PAUSE = 1000
const BETWEEN_MOVES = 500

/**
 * How a limiter has to be connected, which is the opposite of what a client does by itself: nothing is queued, nothing is
 * sent twice, and a connection on which nothing comes back is given up.
 */
const PROFILE = {
  autoResendUnfulfilledCommands: false,
  commandTimeout: undefined,
  connectTimeout: CONNECT,
  connectionName: 'fastify-quota',
  // Or the timer that sees to the end of a connection keeps the process for 2 s after the app has closed.
  disconnectTimeout: DISCONNECT,
  enableAutoPipelining: false,
  enableOfflineQueue: false,
  lazyConnect: true,
  maxRetriesPerRequest: 0,
  // Any time up to the longest pause, or all processes would come back together.
  retryStrategy: (times: number): number => Math.random() * Math.min(50 * 2 ** times, LONGEST_PAUSE),
  // A sentinel that hangs would be waited for for ever.
  sentinelCommandTimeout: SILENCE,
  socketTimeout: SILENCE
}

/** Another connection may lead to a server that takes writes. If it does not, trying it all the time is of no use. */
function moving(): (error: Error) => 1 | false {
  let moved = -Infinity
  return ({ message }) => {
    const now = performance.now()
    if (!/\b(READONLY|NOREPLICAS|MASTERDOWN)\b/.test(message) || now - moved < BETWEEN_MOVES) return false
    moved = now
    return 1
  }
}

const CLUSTER_PROFILE = {
  clusterRetryStrategy: PROFILE.retryStrategy,
  enableAutoPipelining: false,
  enableOfflineQueue: false,
  lazyConnect: true,
  maxRedirections: 3,
  retryDelayOnClusterDown: 0,
  // Else what was sent when a connection broke is sent again, and counts twice if it had arrived.
  retryDelayOnFailover: 0,
  retryDelayOnMoved: 0,
  retryDelayOnTryAgain: 10,
  scaleReads: 'master',
  // A client that is closed while it asks for the slots goes on asking for ever. They are asked for when a node is down.
  slotsRefreshInterval: undefined
}

/** A connection of the store's own to where the client is connected, not connected yet. */
export function dedicated(client: RedisClient): RedisClient {
  const profile = { ...PROFILE, reconnectOnError: moving() }
  const options = isCluster(client) ? [[], { ...CLUSTER_PROFILE, redisOptions: profile }] : [profile]
  const own = client.duplicate(...(options as never[])) as RedisClient
  if (isCluster(own)) own.on('+node', node => attend(node as Connecting))
  else attend(own)
  return own
}

type Connecting = RedisClient & { readonly stream?: Socket }

function attend(client: Connecting): void {
  client.on('connect', () => {
    sendTogether(client.stream!)
    hearOut(client.stream!)
  })
}

/** Calls that are sent at once, at most: the server should begin with them while others are made. */
const TOGETHER = 4

/**
 * Sends what is written in one turn together: half of what a call costs a process, and a good part of what it costs the
 * server, is to be sent alone.
 */
function sendTogether(stream: Socket): void {
  const write = stream.write.bind(stream) as (...args: readonly unknown[]) => boolean
  let waiting = 0
  const send = (): void => {
    if (waiting === 0) return
    waiting = 0
    stream.uncork()
  }
  stream.write = (...args: readonly unknown[]) => {
    if (waiting === 0) {
      stream.cork()
      setImmediate(send)
    }
    waiting++
    const more = write(...args)
    if (waiting >= TOGETHER) send()
    return more
  }
}

/**
 * Has a connection read what has arrived before it is given up for its silence: a process that stood still, whose timers go
 * off before it reads, must not take that for a server that does.
 */
function hearOut(stream: Socket): void {
  const destroy = stream.destroy.bind(stream)
  stream.destroy = error => {
    if (error?.message.startsWith('Socket timeout') !== true) return destroy(error)
    const heard = stream.bytesRead
    setImmediate(() => stream.bytesRead === heard && destroy(error))
    return stream
  }
}

/**
 * Connects to the nodes of a cluster before anybody asks for them, and resolves when that has worked out or failed: a replica
 * may be the next master.
 */
export async function connectNodes(client: RedisClient): Promise<void> {
  if (isCluster(client)) await Promise.allSettled(client.nodes().map(node => node.connect()))
}

/** Begins to connect, unless it has begun already. What comes of it is told by events. */
export function connect(client: RedisClient): void {
  if (client.status === 'wait') client.connect().catch(() => {})
}

/** What an operator should know about a server, one sentence each, by the code of a warning. */
export interface ServerReport {
  /** Whether it runs scripts that begin with `#!lua`, which it refuses before their first line when it cannot write. */
  readonly shebang: boolean
  readonly version: string
  readonly evicts: string | undefined
  readonly replica: boolean
}

/** The oldest server whose scripts may ask the time before they write. */
export const OLDEST = 5

/** Reads the answer of `INFO`. What a server does not tell is taken to be in order. */
export function readInfo(info: string): ServerReport {
  const value = (name: string): string | undefined => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1]
  const version = value('redis_version') ?? ''
  const policy = value('maxmemory_policy')
  return {
    shebang: Number.parseInt(version, 10) >= 7,
    version,
    evicts: policy === undefined || policy === 'noeviction' ? undefined : policy,
    replica: value('role') === 'slave'
  }
}
