import type { FastifyRequest } from 'fastify'
import { isLater, whenKnown } from '../later.js'
import type { Later } from '../later.js'
import { wholeAddress } from './theirs.js'
import type { Limit } from './theirs.js'

interface Caller {
  readonly key: string
  /** Whether it is on the list. @throws what a function of the operator has thrown. */
  readonly isListed: () => boolean
}

/** Who requests are from, as `keyGenerator` and `allowList` tell. */
export class Callers {
  readonly #limitOf: (request: FastifyRequest) => Limit
  readonly #known = new WeakMap<FastifyRequest, Caller>()

  constructor(limitOf: (request: FastifyRequest) => Limit) {
    this.#limitOf = limitOf
  }

  /** The key of a request, as an identity. It finds out about the list on the way, for only identities are waited for. */
  readonly identify = (request: FastifyRequest): Later<string | number> => {
    const limit = this.#limitOf(request)
    const key = limit.keyGenerator === undefined ? addressKey(limit, request) : limit.keyGenerator(request)
    return whenKnown(key, key => {
      if (isNobody(key)) return key
      return whenKnown(listed(limit, request, String(key)), isListed => {
        this.#known.set(request, { key: String(key), isListed })
        return key
      })
    })
  }

  /** The key of a request; of one that nobody could tell, its address. */
  keyOf(request: FastifyRequest): string {
    return this.#known.get(request)?.key ?? addressKey(this.#limitOf(request), request)
  }

  /** Whether a request is not limited. A list that is a function knows once the request is identified. */
  readonly isListed = (request: FastifyRequest): boolean => {
    const caller = this.#known.get(request)
    return caller === undefined ? isOnList(this.#limitOf(request), request) : caller.isListed()
  }
}

/** Whether a request has to be asked who it is from, besides for its address. */
export function asks({ keyGenerator, allowList }: Limit): boolean {
  return keyGenerator !== undefined || typeof allowList === 'function'
}

/** A key that identifies nobody, whatever its type says. */
const isNobody = (key: unknown): boolean => key === undefined || key === null || key === ''

function listed(limit: Limit, request: FastifyRequest, key: string): Later<Caller['isListed']> {
  if (typeof limit.allowList !== 'function') return () => isOnList(limit, request, key)
  try {
    const answer: unknown = limit.allowList(request, key)
    return isLater(answer) ? answer.then(answered, failed) : answered(answer)
  } catch (error) {
    return failed(error)
  }
}

const answered = (answer: unknown) => (): boolean => Boolean(answer)

const failed = (error: unknown) => (): never => {
  throw error
}

/** Without a generator, an entry may be an address whose network is the key. */
function isOnList(limit: Limit, request: FastifyRequest, key?: string): boolean {
  const { allowList, addresses, keyGenerator } = limit
  if (typeof allowList === 'function') return false
  if (allowList.includes(key ?? addressKey(limit, request))) return true
  return keyGenerator === undefined && addresses.has(wholeAddress(request.ip))
}

/** An address, or the first one of a network: `203.0.113.9`, `2001:db8:1:2::`. */
function addressKey({ addressing }: Limit, request: FastifyRequest): string {
  const part = addressing(request.ip, request.socket.remoteAddress)
  return part.slice('ip:'.length).replace(/\/\d+$/, '')
}
