import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import type { Legacy } from 'fastify-quota'
import type { FormName } from './forms.js'

/** A program that calls APIs, and calls again when it is refused. */
export interface Client {
  readonly name: string
  /** What it consists of on npm; the first has its version. */
  readonly packages: readonly string[]
  /** Its version on this machine; `undefined`: it is not here. */
  readonly find: () => Promise<string | undefined>
  /** The forms that make it wait, each of them without the others. */
  readonly reads: readonly FormName[]
  /** The older form that a server had better send to it. */
  readonly legacy: Legacy | false
  /** What it does by its own rules when a wait is long. */
  readonly longWaits?: string
  /** Whether `X-Should-Retry: false` stops it. */
  readonly heedsHint?: true
  /**
   * Calls an address, with the retries that it has by default or that its documentation turns on. Resolves when it has
   * been served; rejects when it has given up, or is aborted.
   */
  readonly call: (url: string, signal: AbortSignal) => Promise<unknown>
}

/** A client from npm. */
export function packaged(client: Omit<Client, 'find'>): Client {
  return { ...client, find: async () => versionOf(client.packages[0]!) }
}

/** Read from its folder, for not every package exports its package.json. */
function versionOf(name: string): string {
  const folders = createRequire(import.meta.url).resolve.paths(name) ?? []
  const file = folders.map(folder => join(folder, name, 'package.json')).find(existsSync)
  if (file === undefined) throw new Error(`${name} is not installed`)
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

/** A client that hands out a refusal like any other response has given up. */
export function demandServed(status: number): void {
  if (status !== 200) throw new Error(`gave up with status ${status}`)
}
