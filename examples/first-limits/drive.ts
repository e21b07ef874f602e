import { setTimeout as sleep } from 'node:timers/promises'

/** A request to send, and who sends it. */
interface Ask {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly user?: string
}

/** What came back. */
interface Answer {
  readonly status: number
  readonly limit: string
  /** Seconds; 0: the response has no `Retry-After`. */
  readonly retryAfter: number
  readonly body: string
}

const ITEMS: Ask = { method: 'GET', path: '/items' }
const EXPORT: Ask = { method: 'GET', path: '/export' }
const HEALTH: Ask = { method: 'GET', path: '/health' }
const LOGIN: Ask = { method: 'POST', path: '/login' }
const ALICE: Ask = { method: 'GET', path: '/me', user: 'alice' }
const BOB: Ask = { method: 'GET', path: '/me', user: 'bob' }

/**
 * Sends requests to the API at `origin` as a client would, one after the other, and prints each with what it was told.
 * Rejects if `signal` aborts.
 */
export async function drive(
  origin: string,
  signal: AbortSignal,
  print: (line: string) => void
): Promise<void> {
  const started = performance.now()

  async function repeat(ask: Ask, times: number): Promise<Answer> {
    const answer = await send(origin, ask, signal)
    print(row(performance.now() - started, ask, answer))
    return times === 1 ? answer : repeat(ask, times - 1)
  }

  async function waitOut({ retryAfter }: Answer): Promise<void> {
    print(`${' '.repeat(WIDTHS[0])}  … ${retryAfter} s later, as Retry-After says`)
    await sleep(retryAfter * 1000, undefined, { signal })
  }

  const scene = (title: string): void => print(`\n${title}\n${HEADER}`)

  scene(
    'GET /items: 10 in any 3 seconds, 1000 in any day. Ten are served, the next are told how long to wait.'
  )
  const refused = await repeat(ITEMS, 12)
  print(`\nThe body of a refusal:\n${indented(refused.body)}\n`)
  await waitOut(refused)
  await repeat(ITEMS, 1)

  scene(
    'GET /export costs 5 units of the same quotas. Four are left after the first: not enough for another.'
  )
  await repeat(EXPORT, 2)

  scene('GET /health has no quota, and says nothing.')
  await repeat(HEALTH, 3)

  scene('POST /login has a quota of its own, 3 in any 4 seconds, and wrong passwords count.')
  await repeat(LOGIN, 4)

  scene('GET /me: 3 in any 2 seconds for each user. What alice spends is not missing from what bob has.')
  const told = await repeat(ALICE, 4)
  await repeat(BOB, 2)
  await waitOut(told)
  await repeat(ALICE, 1)
}

async function send(origin: string, { method, path, user }: Ask, signal: AbortSignal): Promise<Answer> {
  const headers: Record<string, string> = user === undefined ? {} : { 'x-user': user }
  const response = await fetch(new URL(path, origin), { method, headers, signal })
  return {
    status: response.status,
    limit: response.headers.get('ratelimit') ?? '',
    retryAfter: Number(response.headers.get('retry-after') ?? 0),
    body: await response.text()
  }
}

const WIDTHS = [9, 22, 6, 48] as const
const HEADER = columns('time', 'request', 'status', 'RateLimit', 'Retry-After')

function row(elapsed: number, { method, path, user }: Ask, { status, limit, retryAfter }: Answer): string {
  const request = `${method} ${path}${user === undefined ? '' : ` as ${user}`}`
  const time = `${(elapsed / 1000).toFixed(3)} s`
  return columns(time.padStart(WIDTHS[0] - 1), request, String(status), limit, String(retryAfter || ''))
}

function columns(...texts: readonly string[]): string {
  return texts
    .map((text, i) => text.padEnd(WIDTHS[i] ?? 0))
    .join(' ')
    .trimEnd()
}

const indented = (json: string): string => JSON.stringify(JSON.parse(json), null, 2).replaceAll(/^/gm, '  ')
