import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { checkForwarding } from '../src/forwarded.js'
import type { Warnings } from '../src/warnings.js'

/** Checks one request; gives whether it was forwarded, and the warnings. */
function check(request: object): readonly unknown[] {
  const heard: unknown[] = []
  const warnings = {
    untrustedForwarding: (header: string) => void heard.push('untrusted', header),
    chosenAddress: () => void heard.push('chosen')
  } as unknown as Warnings
  const { headers = {} } = request as { readonly headers?: Readonly<Record<string, string>> }
  const raw = { rawHeaders: Object.entries(headers).flat() }
  return [checkForwarding({ headers, raw, ...request } as FastifyRequest, warnings), ...heard]
}

const chain = (...addresses: readonly string[]): object => ({
  headers: { 'x-forwarded-for': addresses.join(', ') }
})

t.test('a request without a forwarded header says nothing', async t => {
  t.strictSame(check({ ip: '10.0.0.1' }), [false])
  t.strictSame(check({ headers: { host: 'forwarded', 'x-request': '1', 'x-forwarded-by': 'a' } }), [false])
})

t.test('forwarded headers that do not change the address are untrusted', async t => {
  t.strictSame(check({ ...chain('192.0.2.1') }), [true, 'untrusted', 'X-Forwarded-For'])
  t.strictSame(check({ ...chain('192.0.2.1'), ips: ['10.0.0.1'] }), [true, 'untrusted', 'X-Forwarded-For'])
  t.strictSame(check({ headers: { forwarded: 'for=192.0.2.1' }, ips: ['10.0.0.1'] }), [
    true,
    'untrusted',
    'Forwarded'
  ])
})

t.test('the leftmost of several addresses may have been chosen by the client', async t => {
  const ips = ['10.0.0.1', '203.0.113.9', '6.6.6.6']
  t.strictSame(check({ ...chain('6.6.6.6', '203.0.113.9'), ips, ip: '6.6.6.6' }), [true, 'chosen'])
})

t.test('a trusted proxy that names its client is as it should be', async t => {
  const ips = ['10.0.0.1', '203.0.113.9']
  t.strictSame(check({ ...chain('6.6.6.6', '203.0.113.9'), ips, ip: '203.0.113.9' }), [true])
  t.strictSame(check({ ...chain('203.0.113.9'), ips, ip: '203.0.113.9' }), [true])
})
