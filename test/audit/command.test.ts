import Fastify from 'fastify'
import t from 'tap'
import type { Test } from 'tap'
import { auditCommand } from '../../src/audit/command.js'
import type { CommandOptions } from '../../src/audit/command.js'
import type { AuditResult } from '../../src/audit/index.js'
import quota from '../../src/index.js'
import type { PolicyOptions } from '../../src/index.js'

interface Ended {
  readonly code: number
  readonly printed: string
  readonly complaints: string
  readonly files: Readonly<Record<string, string>>
  readonly terminal: string
}

async function command(
  url: string,
  options: CommandOptions,
  watching: 'watched' | 'unwatched' = 'unwatched'
): Promise<Ended> {
  const texts = { printed: '', complaints: '', terminal: '' }
  const files: Record<string, string> = {}
  const code = await auditCommand(url, options, {
    print: text => void (texts.printed += text),
    complain: text => void (texts.complaints += text),
    paint: (_style, text) => text,
    terminal: watching === 'watched' ? { write: text => void (texts.terminal += text) } : undefined,
    readText: () => {
      throw new Error('no file')
    },
    writeText: (path, text) => {
      if (path === '/nowhere') throw new Error('no such folder')
      files[path] = text
    }
  })
  return { code, files, ...texts }
}

/** Again where the machine was too busy to measure. */
async function measured(
  url: string,
  options: CommandOptions,
  watching: 'watched' | 'unwatched' = 'unwatched'
): Promise<Ended> {
  for (let tries = 1; ; tries++) {
    const ended = await command(url, options, watching)
    if (tries === 6 || !ended.complaints.includes('this machine sent requests')) return ended
  }
}

/** A real server, which counts what it was asked. */
async function listening(
  t: Test,
  options: Partial<PolicyOptions>
): Promise<{ url: string; asked: () => number }> {
  const app = Fastify()
  let asked = 0
  app.addHook('onRequest', async () => void asked++)
  await app.register(quota, { policies: { p: { quota: 5, window: '1s', ...options } } })
  app.get('/', () => 'served')
  t.teardown(() => app.close())
  return { url: await app.listen({ port: 0, host: '127.0.0.1' }), asked: () => asked }
}

t.test('a kept promise ends with 0, and is printed as a table', async t => {
  const { url } = await listening(t, {})
  const { code, printed, complaints, terminal, files } = await measured(
    url,
    { attacks: ['drained'], junit: 'out.xml' },
    'watched'
  )
  t.equal(code, 0)
  t.equal(complaints, '')
  t.match(printed, /\nKept: no 1s is sure to have admitted more than \d of 5/)
  t.match(files['out.xml'], /^<\?xml.* failures="0" /s)
  t.match(terminal, 'attack 1 of 1: drained begins in ')
  t.ok(terminal.endsWith('\r\u001b[K'))
})

t.test('a broken promise ends with 1, and as JSON if asked for', async t => {
  const { url } = await listening(t, { algorithm: 'token-bucket' })
  const { code, printed, terminal, files } = await command(url, {
    attacks: ['drained'],
    json: true,
    html: 'out.html'
  })
  const result = JSON.parse(printed) as AuditResult
  t.match(result, { target: `${url}/`, promise: { quota: 5, window: 1 }, promiseKept: false })
  t.match(files['out.html'], /^<!doctype html>.*Broken/s)
  t.equal(code, 1)
  t.equal(terminal, '')
})

t.test('a false field ends with 1 only if it is to', async t => {
  const app = Fastify()
  await app.register(quota, { policies: { p: { quota: 5, window: '1s' } } })
  app.addHook('onSend', async (_request, reply) => {
    if (reply.statusCode === 429) reply.header('cache-control', 'max-age=60')
  })
  app.get('/', () => 'served')
  t.teardown(() => app.close())
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  t.match(await measured(url, { attacks: ['drained'] }), { code: 0 })
  const strict = await measured(url, { attacks: ['drained'], strict: true, junit: 'out.xml' })
  t.match(strict, { code: 1, files: { 'out.xml': /<failure message="Cache-Control: max-age=60">/ } })
})

t.test('a dry run sends nothing, or one request to read the promise', async t => {
  const { url, asked } = await listening(t, {})
  const stated = await command(url, { dryRun: true, quota: '5', window: '1' })
  t.match(stated, { code: 0, printed: /This was a dry run/ })
  t.equal(asked(), 0)
  const told = await command(url, { dryRun: true, json: true })
  t.match(JSON.parse(told.printed), {
    promise: { quota: 5, window: 1, policy: 'p' },
    attacks: { length: 11 }
  })
  t.equal(asked(), 1)
})

t.test('what cannot be measured ends with 2 and a sentence', async t => {
  const { url } = await listening(t, {})
  t.match(await command('http://127.0.0.1:1/', {}), {
    code: 2,
    printed: '',
    complaints: /^audit: could not measure: nobody answers: .*ECONNREFUSED/
  })
  t.match(await command(url, { attacks: ['parallel'] }), {
    code: 2,
    complaints: 'audit: could not measure: no attack watches longer than one window of 1 s\n'
  })
  t.match(await command(url, { quota: 'many' }), {
    code: 2,
    complaints: /^audit: --quota must be an integer/
  })
  t.match(await command('https://example.com/', {}), {
    code: 2,
    complaints: /--i-own-this-host example\.com/
  })
  t.match(await command(url, { attacks: ['drained'], junit: '/nowhere' }), {
    code: 2,
    complaints: /^audit: Error: no such folder\n +at /
  })
})
