import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** The end of a request: its response has left, or its client has. Everybody who waits for it is told once. */
export class Ending {
  readonly #request: FastifyRequest
  readonly #reply: FastifyReply
  readonly #inHand: Set<Ending>
  readonly #told: (() => void)[] = []
  #over = false

  constructor(request: FastifyRequest, reply: FastifyReply) {
    this.#request = request
    this.#reply = reply
    this.#inHand = inHandOf(request.raw.socket)
    this.#inHand.add(this)
    reply.raw.once('close', () => this.#end())
  }

  /** Whether nobody is there to answer. The events may have come before anybody listened. */
  get over(): boolean {
    return this.#over || this.#reply.raw.destroyed || this.#request.raw.socket.destroyed
  }

  /** Calls `told` at the end; now, if that has come. */
  await(told: () => void): void {
    if (this.over) told()
    else this.#told.push(told)
  }

  /** Ends it if nobody is there. */
  check(): void {
    if (this.over) this.#end()
  }

  #end(): void {
    if (this.#over) return
    this.#over = true
    this.#inHand.delete(this)
    for (const told of this.#told) told()
  }
}

/** The requests in hand on each connection that wait for their end. */
const connections = new WeakMap<Socket, Set<Ending>>()

/**
 * A response that waits for its turn on the connection never closes if that does, so the connection has to be listened to:
 * once, however many requests a client has sent ahead.
 */
function inHandOf(connection: Socket): Set<Ending> {
  const known = connections.get(connection)
  if (known !== undefined) return known
  const inHand = new Set<Ending>()
  connections.set(connection, inHand)
  connection.once('close', () => {
    for (const ending of inHand) ending.check()
  })
  return inHand
}
