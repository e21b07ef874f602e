import type { FastifyRequest } from 'fastify'

/** Who a request is from, once authentication has verified it. */
export interface Account {
  readonly id: string
  readonly tenant: string
}

declare module 'fastify' {
  interface FastifyRequest {
    account: Account | null
  }
}

const ACCOUNTS: ReadonlyMap<string, Account> = new Map([
  ['token-of-ann', { id: 'ann', tenant: 'acme' }],
  ['token-of-ben', { id: 'ben', tenant: 'acme' }],
  ['token-of-cleo', { id: 'cleo', tenant: 'globex' }]
])

/** Stands for your authentication: three accounts with tokens; anybody else is nobody. */
export async function authenticate(request: FastifyRequest): Promise<void> {
  const [, token = ''] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? []
  request.account = ACCOUNTS.get(token) ?? null
}
