import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, FastifyPluginAsync, LightMyRequestResponse } from 'fastify'
import t from 'tap'
import { ATTACKS } from '../src/audit/attacks.js'
import { paced } from '../src/client/index.js'
import quota, { memoryStore, redisStore } from '../src/index.js'
import * as errors from '../src/errors.js'
import { quotaMetrics } from '../src/metrics/index.js'
import { fromFastifyRateLimit } from '../src/migrate.js'
import Fastify from 'fastify'
import { Redis } from 'ioredis'

const root = new URL('../../', import.meta.url)
const read = (name: string): string => readFileSync(new URL(name, root), 'utf8')
const readme = read('README.md')

interface Example {
  readonly build: () => Promise<FastifyInstance>
}

interface Block {
  readonly language: string
  readonly text: string
  /** The HTML comment before it, without its brackets. */
  readonly comment: string
}

const blocks: readonly Block[] = [
  ...readme.matchAll(/(?:<!-- ([^\n]*) -->\n\n)?^```(\w*)\n(.*?)^```$/gms)
].map(([, comment = '', language = '', text = '']) => ({ language, text, comment }))

t.test('a newcomer needs two commands', async t => {
  const commands = blocks.filter(({ language }) => language === 'sh').map(({ text }) => text)
  t.strictSame(commands, ['npm ci && npm start\n', 'npm ci && npm test\n'])
})

t.test(
  'every block is TypeScript that is compiled, HTTP that is answered, what a command prints, or a command',
  async t => {
    const languages = new Set(blocks.map(({ language }) => language))
    t.strictSame([...languages].toSorted(), ['console', 'http', 'sh', 'ts'])
  }
)

t.test('every paragraph of a TypeScript block is an excerpt of the file it names, in order', async t => {
  const excerpts = blocks.filter(({ language }) => language === 'ts')
  t.ok(excerpts.length > 0)
  for (const { comment, text } of excerpts) {
    t.match(comment, /^(?:examples\/[\w/-]+|test\/examples\.test)\.ts$/, text)
    let rest = read(comment)
    for (const paragraph of text.trimEnd().split('\n\n')) {
      const [end] = ends(rest, paragraph)
      t.not(end, undefined, `${comment}: ${paragraph}`)
      rest = rest.slice(end)
    }
  }
})

/** Where an excerpt ends in a file that may have it further to the right. */
function ends(file: string, excerpt: string): readonly number[] {
  return ['', '  ', '    '].flatMap(indent => {
    const lines = `\n${excerpt.replaceAll(/^(?=.)/gm, indent)}\n`
    const at = `\n${file}`.indexOf(lines)
    return at < 0 ? [] : [at + lines.length - 2]
  })
}

t.test('every HTTP block is what the example answers', async t => {
  const answers = blocks.filter(({ language }) => language === 'http')
  t.ok(answers.length > 0)
  for (const { comment, text } of answers) {
    const [, example = '', times, url = ''] =
      /^examples\/([\w-]+)\.ts: (\d+) × GET (\S+)$/.exec(comment) ?? []
    const { build } = (await import(`../examples/${example}.js`)) as Example
    const app = await build()
    let answer: LightMyRequestResponse | undefined
    for (let i = 0; i < Number(times); i++) answer = await app.inject(url)
    await app.close()
    const [head = '', body] = text.trimEnd().split('\n\n')
    const [status, ...fields] = head.split('\n')
    t.equal(status, `HTTP/1.1 ${answer!.statusCode} ${answer!.statusMessage}`, comment)
    for (const field of fields.filter(field => !/^(?:Date|Connection|Keep-Alive): /.test(field))) {
      const [name = '', value] = field.split(/: (.*)/)
      t.equal(answer!.headers[name]?.toString(), value, `${comment}: ${name}`)
    }
    if (body !== undefined) t.equal(answer!.payload, body, comment)
  }
})

t.test('every console block is what its command prints, down to the explanations', async t => {
  const sessions = blocks.filter(({ language }) => language === 'console')
  t.ok(sessions.length > 0)
  for (const { text } of sessions) {
    // It needs a Redis, as its other tests do.
    if (text.startsWith('$ node dist/examples/redis-two-processes.js\n')) continue
    // An audit takes a minute, and no two are alike to the millisecond: its attacks have to be those there are.
    if (text.startsWith('$ npx fastify-quota audit ')) {
      const attacks = [...text.matchAll(/^([a-z]+(?:-[a-z\d]+)*) +\d+ +\d+ /gm)].map(([, name]) => name)
      t.strictSame(
        attacks,
        ATTACKS.filter(({ bypass }) => bypass !== true).map(({ name }) => name)
      )
      continue
    }
    // So does a comparison of three: its words have to be those of the program, and its test makes it with smaller windows.
    if (text.startsWith('$ node dist/examples/migrate-audit.js\n')) {
      const program = read('examples/migrate-audit.ts')
      const words = [...text.matchAll(/^[a-z-]+(?= {2})|@?[a-z/]*[a-z]-[a-z-]+(?= |$)/gm)].map(
        ([word]) => word
      )
      t.ok(words.length >= 6)
      for (const word of words.slice(1)) t.ok(program.includes(`${word}'`), word)
      continue
    }
    const [, parameters = '', output = ''] = /^\$ npx fastify-quota simulate (.*)\n([^]*)$/.exec(text) ?? []
    t.ok(output !== '' && simulated(parameters).startsWith(`${output}\nadmitted `), parameters)
  }
})

t.test('what it says was measured is what the simulator measures', async t => {
  const rows = [...table('measured').matchAll(/^\| `([\w-]+)`[^|]*\|(.*) \|$/gm)]
  t.equal(rows.length, 6)
  const { scenarios } = JSON.parse(simulated('--json')) as Simulated
  for (const [, name = '', measured = ''] of rows) {
    const found = scenarios.map(({ algorithms }) =>
      algorithms.filter(
        ({ algorithm, label }) => algorithm === name && !/, drained$|^fixed-window$/.test(label)
      )
    )
    for (const same of found) t.strictSame(new Set(same.map(most)).size, 1, `${name}, at any precision`)
    t.equal(measured.trim(), found.map(([first]) => most(first!)).join(' | '), name)
  }
})

interface Simulated {
  readonly scenarios: readonly { readonly algorithms: readonly Result[] }[]
}

interface Result {
  readonly algorithm: string
  readonly label: string
  readonly phases: readonly { readonly mostInAnyWindow: number }[]
}

const most = ({ phases }: Result): string => phases.map(({ mostInAnyWindow }) => mostInAnyWindow).join(' | ')

function simulated(parameters: string): string {
  return commanded('simulate', ...parameters.split(' '))
}

/** What the command line prints. */
function commanded(...words: readonly string[]): string {
  const program = fileURLToPath(new URL('dist/src/cli.js', root))
  const { stdout } = spawnSync(process.execPath, [program, ...words], {
    encoding: 'utf8',
    env: { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '' }
  })
  return stdout
}

t.test('the tables of options list the options that the code knows, and no other', async t => {
  const policies = { default: '1/1s' } as const
  t.strictSame(listed('options of the plugin'), await known({ policies, [STRANGER]: 1 }))
  t.strictSame(
    listed('options of a policy'),
    await known({ policies: { default: { quota: 1, window: 1, [STRANGER]: 1 } } })
  )
  t.strictSame(listed('options of a route'), await known({ policies }, { [STRANGER]: 1 }))
  const simulatorOptions = new Set(simulated('--help').match(/--(?!help)[a-z-]+(?= <|  )/g))
  t.strictSame(new Set(table('options of simulate').match(/--[a-z-]+(?=`(?:,| \|))/g)), simulatorOptions)
  const auditOptions = new Set(commanded('audit', '--help').match(/--(?!help)[a-z-]+(?= <|  )/g))
  t.strictSame(new Set(table('options of audit').match(/--[a-z-]+(?=`(?:,| \|))/g)), auditOptions)
  t.strictSame(
    listed('options of memoryStore'),
    expectedBy(() => memoryStore({ [STRANGER]: 1 } as object))
  )
  t.strictSame(
    listed('options of paced'),
    expectedBy(() => paced(fetch, { [STRANGER]: 1 } as object))
  )
  t.strictSame(
    listed('options of fromFastifyRateLimit'),
    expectedBy(() => fromFastifyRateLimit({}, { [STRANGER]: 1 } as object))
  )
  t.strictSame(listed('options of reduce'), await reducing())
  t.strictSame(listed('options of quotaMetrics'), await knownTo(quotaMetrics))
  const client = new Redis({ lazyConnect: true })
  t.strictSame(
    listed('options of redisStore'),
    expectedBy(() => redisStore(client, { [STRANGER]: 1 } as never))
  )
})

t.test('the tables of codes list the errors and the warnings, and no other', async t => {
  const codes = Object.keys(errors).filter(name => name.startsWith('FST_'))
  t.strictSame(new Set(listed('errors')), new Set(codes))
  const ofClient = new Set(
    [...read('src/client/errors.ts').matchAll(/code = '(\w+)'/g)].map(([, code]) => code)
  )
  t.strictSame(new Set(listed('errors of the client')), ofClient)
  const warnings = new Set(read('src/warnings.ts').match(/FST_QUOTA_\w+/g))
  t.strictSame(new Set(listed('warnings')), warnings)
})

t.test('the message it quotes is what the boot says', async t => {
  const [, code, message = ''] = /^> `(FST_\w+)`: (.*)$/m.exec(readme) ?? []
  await t.rejects(booted({ policies: { daily: { max: 100, window: '1d' } } }), { code, message })
})

t.test('every link within the README leads to a heading', async t => {
  const headings = [...readme.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^a-z0-9 -]/g, '')
      .replaceAll(' ', '-')
  )
  const links = [...readme.matchAll(/\]\(#([^)]*)\)/g)].map(([, anchor]) => anchor)
  t.ok(links.length > 0)
  t.strictSame(
    links.filter(anchor => !headings.includes(anchor!)),
    []
  )
})

/** An option that is near to none. */
const STRANGER = 'zzzzzzzzzzzzzzzz'

/** The table after a comment. */
function table(comment: string): string {
  return new RegExp(`<!-- ${comment} -->\n\n((?:\\|.*\n)+)`).exec(readme)?.[1] ?? ''
}

/** The first column of the table after a comment. */
function listed(comment: string): readonly string[] {
  return [...table(comment).matchAll(/^\| `(\w+)`/gm)].map(([, name = '']) => name)
}

/** The options that a message about an unknown one expects. */
function expectedIn(error: unknown): readonly string[] {
  const [, list = ''] = /; expected (.*)$/.exec((error as Error).message) ?? []
  return list.split(', ')
}

function expectedBy(call: () => unknown): readonly string[] {
  try {
    call()
    return []
  } catch (error) {
    return expectedIn(error)
  }
}

/** What `app.quota.reduce` expects. */
async function reducing(): Promise<readonly string[]> {
  const app = Fastify()
  await app.register(quota, { policies: { default: '1/1s' } })
  const expected = expectedBy(() => app.quota.reduce({ [STRANGER]: 1 } as never))
  await app.close()
  return expected
}

/** What a plugin expects beside the quota of an app. */
async function knownTo(plugin: FastifyPluginAsync<never>): Promise<readonly string[]> {
  const app = Fastify() as FastifyInstance
  try {
    await plugin(app, { [STRANGER]: 1 } as never)
    return []
  } catch (error) {
    return expectedIn(error)
  } finally {
    await app.close()
  }
}

async function known(options: object, route?: object): Promise<readonly string[]> {
  try {
    await booted(options, route)
    return []
  } catch (error) {
    return expectedIn(error)
  }
}

async function booted(options: object, route?: object): Promise<void> {
  const app = Fastify()
  try {
    await app.register(quota, options as never)
    app.get('/', { config: { quota: route as never } }, () => '')
  } finally {
    await app.close().catch(() => undefined)
  }
}
