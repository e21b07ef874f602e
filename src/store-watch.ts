import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { FastifyBaseLogger } from 'fastify'
import { FST_QUOTA_STORE } from './errors.js'
import { STORE_CHANNEL } from './store.js'
import type { Store, StoreChange } from './store.js'

/** Logs what a store tells of itself: a line for each change, none for a request. Returns the function that ends it. */
export function watchStore(store: Store, log: FastifyBaseLogger): () => void {
  const listen = (message: unknown): void => {
    const change = message as StoreChange
    if (change.store === store) tell(change, log)
  }
  subscribe(STORE_CHANNEL, listen)
  return () => void unsubscribe(STORE_CHANNEL, listen)
}

function tell({ state, code, node }: StoreChange, log: FastifyBaseLogger): void {
  const about = node === undefined ? { code } : { code, node }
  if (state === 'up') return log.info(about, 'fastify-quota: the store answers again')
  if (state === 'down') {
    return log.warn(
      about,
      `fastify-quota: the store does not answer (${code}), so policies do as onStoreFailure says`
    )
  }
  log.error(
    { ...about, err: new FST_QUOTA_STORE(`the store refuses to count: ${code}${remedy(code)}`) },
    FAULT
  )
}

/** What to look at when a server lacks a command, or its user may not call it. */
function remedy(code: string): string {
  return code === 'NOPERM' || code === 'ERR' ? `; ${NEEDED}` : ''
}

const NEEDED =
  'it calls EVALSHA, EVAL, TIME, HMGET, HSET, HDEL, HLEN, HGETALL, PTTL, PEXPIRE, SET; where a script may not call TIME, ' +
  "give redisStore time: 'caller'"

const FAULT =
  'fastify-quota: the store answers with an error that waiting does not mend, so policies do as onStoreFailure says'
