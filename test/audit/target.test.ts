import t from 'tap'
import { QuotaOptionError } from '../../src/client/errors.js'
import { readTarget } from '../../src/audit/target.js'
import type { Target } from '../../src/audit/target.js'
import { refuser } from '../../src/options.js'

const refuse = refuser(QuotaOptionError, 'audit')
const read = (url: unknown, ownHost?: string): Target => readTarget(refuse, url, ownHost)

t.test('this machine may be attacked, however it is spelled', async t => {
  for (const url of [
    'http://localhost:3000/items?q=1',
    'http://LOCALHOST:3000/items?q=1',
    'http://api.localhost:3000/items?q=1',
    'http://127.0.0.1:3000/items?q=1',
    'http://127.9.9.9:3000/items?q=1',
    'http://2130706433:3000/items?q=1',
    'http://[::1]:3000/items?q=1',
    'http://[::ffff:127.0.0.1]:3000/items?q=1'
  ]) {
    t.match(read(url), { path: '/items?q=1', origin: /^http:\/\/.*:3000$/ }, url)
  }
  t.strictSame(read(new URL('https://localhost')), { origin: 'https://localhost', path: '/' })
})

t.test('another host has to be named a second time', async t => {
  for (const [url, host] of [
    ['https://api.example.com/items', 'api.example.com'],
    ['http://10.0.0.1/', '10.0.0.1'],
    ['http://0.0.0.0/', '0.0.0.0'],
    ['http://127.example.com/', '127.example.com'],
    ['http://localhost.example.com/', 'localhost.example.com'],
    ['http://[2001:db8::1]/', '2001:db8::1'],
    ['http://[::ffff:8.8.8.8]/', '::ffff:808:808']
  ] as const) {
    t.throws(() => read(url), {
      code: 'QUOTA_OPTION',
      message: `audit: only a server of your own may be attacked, and "${host}" is not this machine: say that it is yours with --i-own-this-host ${host} (ownHost)`
    })
    t.equal(read(url, host).origin, new URL(url).origin)
  }
  t.throws(() => read('https://api.example.com/', 'example.com'), {
    message: /\(ownHost\), got "example.com"$/
  })
  t.equal(read('https://api.example.com/', 'API.example.com').path, '/')
})

t.test('what is no URL of HTTP is refused', async t => {
  for (const url of ['localhost:3000', 'ftp://localhost/', '/items', '', undefined, 3000]) {
    t.throws(() => read(url), { message: /^audit: the URL must be one of http: or https:, such as/ })
  }
  t.throws(() => read('http://ann:secret@localhost/'), {
    message: 'audit: the URL must have no user and no password, which would be printed; send a header'
  })
})
