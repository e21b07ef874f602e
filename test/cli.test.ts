import { execFile } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'
import { fileURLToPath } from 'node:url'
import Fastify from 'fastify'
import t from 'tap'
import quota from '../src/index.js'

const root = new URL('../../', import.meta.url)
const manifest = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as {
  readonly version: string
  readonly bin: Readonly<Record<string, string>>
}

interface Ended {
  readonly code: unknown
  readonly stdout: string
  readonly stderr: string
}

t.test('the command of the package is a program for Node.js', async t => {
  t.strictSame(manifest.bin, { 'fastify-quota': 'dist/src/cli.js' })
  const file = new URL('dist/src/cli.js', root)
  t.ok(statSync(file).isFile())
  t.match(readFileSync(file, 'utf8'), /^#!\/usr\/bin\/env node\n/)
})

t.test('a simulation of your own requests reads them from options and a file', async t => {
  const file = `${t.testdir({ 'times.txt': '1000 2\n1970-01-01T00:00:02Z\n' })}/times.txt`
  const words =
    'simulate --quota 3 --window 10s --rate 1/s --for 2s --burst-of 4 --at 5s --burst-of 1 --at 6s ' +
    '--algorithm fixed-window,token-bucket --algorithm sliding-window --phase 0s,3s --json --file'
  const { code, stdout, stderr } = await run([...words.split(' '), file])
  t.strictSame([code, stderr], [0, ''])
  t.match(JSON.parse(stdout), {
    scenarios: [
      {
        scenario: 'own',
        requests: 9,
        algorithms: [
          { label: 'sliding-window, precision 10', phases: [{ shift: 0 }, { shift: 3000 }] },
          { label: 'fixed-window' },
          { label: 'fixed-window, aligned to the clock' },
          { label: 'token-bucket, burst 3' }
        ]
      }
    ]
  })
})

t.test('output is plain in a pipe, and painted where colour is asked for', async t => {
  const plain = await run(['simulate', '--scenario', 'B'])
  t.equal(plain.stdout, stripVTControlCharacters(plain.stdout))
  const painted = await run(['simulate', '--scenario', 'B'], { FORCE_COLOR: '1' })
  t.not(painted.stdout, plain.stdout)
  t.equal(stripVTControlCharacters(painted.stdout), plain.stdout)
})

t.test('a wrong option ends with a sentence and exit code 2', async t => {
  t.strictSame(await run('simulate --quota -1 --window 60s --rate 5/s --for 1s'.split(' ')), {
    code: 2,
    stdout: '',
    stderr: 'simulate: --quota must be an integer from 1 to 999999999999999, got -1\n'
  })
  t.match(await run('simulate --file nowhere.txt'.split(' ')), {
    code: 2,
    stdout: '',
    stderr: /^simulate: --file must be a file that can be read, got "nowhere.txt": ENOENT/
  })
})

t.test('a word the command does not know ends with what was meant and exit code 2', async t => {
  t.strictSame(await run(['simulate', '--qouta', '3']), {
    code: 2,
    stdout: '',
    stderr: "error: unknown option '--qouta'\n(Did you mean --quota?)\n"
  })
  t.match(await run(['simulat']), {
    code: 2,
    stderr: /unknown command 'simulat'\n\(Did you mean simulate\?\)/
  })
  t.match(await run([]), { code: 2, stderr: /^Usage: fastify-quota / })
})

t.test('an audit attacks a server, and its exit code is the verdict', async t => {
  const app = Fastify()
  await app.register(quota, { policies: { default: { quota: 5, window: '1s', algorithm: 'token-bucket' } } })
  app.get('/items', () => 'served')
  t.teardown(() => app.close())
  const url = `${await app.listen({ port: 0, host: '127.0.0.1' })}/items`
  const junit = `${t.testdir({})}/audit.xml`
  const words =
    'audit --attacks drained --header accept:text/plain,text/html --header x-more:1 --json --junit'
  const { code, stdout, stderr } = await run([...words.split(' '), junit, url])
  t.strictSame([code, stderr], [1, ''])
  t.match(JSON.parse(stdout), {
    target: url,
    promise: { quota: 5, window: 1, policy: 'default' },
    attacks: [{ name: 'drained', sent: 74 }],
    worst: { name: 'drained' },
    promiseKept: false
  })
  t.match(readFileSync(junit, 'utf8'), /<testcase classname="audit\.attacks" name="drained"/)
})

t.test('an audit that is told wrong ends with a sentence and exit code 2', async t => {
  t.match(await run('audit http://127.0.0.1:1/ --body @nowhere.json'.split(' ')), {
    code: 2,
    stdout: '',
    stderr: /^audit: --body must be a file that can be read, got "@nowhere.json": ENOENT/
  })
})

t.test('help and the version are no failures', async t => {
  t.strictSame(await run(['--version']), { code: 0, stdout: `${manifest.version}\n`, stderr: '' })
  t.match(await run(['simulate', '--help']), { code: 0, stdout: /--burst-of <requests>/, stderr: '' })
  t.match(await run(['audit', '--help']), { code: 0, stdout: /--i-own-this-host <name>/, stderr: '' })
})

function run(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  const cli = fileURLToPath(new URL('dist/src/cli.js', root))
  // The runner's own wishes about colour are not those of a user.
  const environment = { ...process.env, FORCE_COLOR: undefined, NO_COLOR: undefined, ...env }
  return new Promise(resolve => {
    execFile(process.execPath, [cli, ...words], { env: environment }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : error.code, stdout, stderr })
    })
  })
}
