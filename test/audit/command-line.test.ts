import t from 'tap'
import { readCommandLine } from '../../src/audit/command-line.js'
import type { Given } from '../../src/audit/command-line.js'
import type { Settings } from '../../src/audit/options.js'

function read(given: Given): Settings {
  return readCommandLine(given, path => {
    if (path === 'body.json') return '{"from":"a file"}'
    throw new Error('no such file')
  })
}

t.test('text becomes options', async t => {
  t.match(
    read({
      quota: '10',
      window: '2',
      policy: 'p',
      cost: '3',
      attacks: ['drained'],
      bypass: true,
      method: 'PUT',
      header: ['Authorization: Bearer a,b', 'x-empty:'],
      body: 'text',
      connections: '5',
      maxRequests: '100',
      maxTime: '10m',
      iOwnThisHost: 'example.com'
    }),
    {
      stated: { quota: 10, window: 2000, policy: 'p' },
      cost: 3,
      attacks: { length: 7 },
      method: 'PUT',
      headers: { authorization: 'Bearer a,b', 'x-empty': '' },
      body: 'text',
      connections: 5,
      maxRequests: 100,
      maxTime: 600_000,
      ownHost: 'example.com'
    }
  )
  t.match(read({}), { attacks: { length: 11 }, body: undefined })
  t.match(read({ body: '@body.json' }), {
    body: '{"from":"a file"}',
    headers: { 'content-type': 'application/json' }
  })
})

t.test('messages name options as they are written on the command line', async t => {
  const wrong: readonly (readonly [Given, string | RegExp])[] = [
    [{ quota: '-1' }, /^audit: --quota must be an integer from 1 .*, got -1$/],
    [{ quota: 'ten' }, /^audit: --quota .*, got "ten"$/],
    [{ maxRequests: '1e3' }, /^audit: --max-requests .*, got "1e3"$/],
    [{ maxTime: 'soon' }, /^audit: --max-time .*, got "soon"$/],
    [{ attacks: ['nuke'] }, /^audit: --attacks must be "drained"/],
    [{ header: ['secret-without-colon'] }, 'audit: --header must be like "name: value", got "secret-w"…'],
    [{ header: ['a(b: c'] }, 'audit: --header must have names of header fields, got "a(b"'],
    [{ body: '@nowhere' }, 'audit: --body must be a file that can be read, got "@nowhere": no such file']
  ]
  for (const [given, message] of wrong) {
    t.throws(() => read(given), { code: 'QUOTA_OPTION', message }, JSON.stringify(given))
  }
})
