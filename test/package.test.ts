import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { NEVER, UNKNOWN } from '../src/algorithm.js'
import * as quotaModule from '../src/index.js'

interface Manifest {
  readonly name: string
  readonly version: string
  readonly type: string
  readonly license: string
  readonly engines: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>
  readonly files: readonly string[]
  readonly dependencies: Readonly<Record<string, string>>
}

interface Lock {
  readonly packages: Readonly<Record<string, Partial<Manifest> & { readonly resolved?: string }>>
}

const root = new URL('../../', import.meta.url)
const forms = new URL('test/fixtures/imports/', root)
const readJson = (name: string): unknown => JSON.parse(readFileSync(new URL(name, root), 'utf8'))
const manifest = readJson('package.json') as Manifest
const lock = readJson('package-lock.json') as Lock

t.test('every import form gives a plugin that admits two requests and refuses the third', async t => {
  const scripts = readdirSync(forms).filter(name => !/^(all|probe)\./.test(name))
  t.ok(scripts.length > 0)
  for (const script of scripts) t.equal(await run(script), '', script)
})

t.test(
  'the package is an ES module with these entries, each with its types, and its package.json',
  async t => {
    const entries = {
      '.': 'index',
      './client': 'client/index',
      './client/testing': 'client/testing/index',
      './audit': 'audit/index',
      './migrate': 'migrate',
      './metrics': 'metrics/index'
    }
    const forms = Object.entries(entries).map(([entry, path]) => [
      entry,
      { types: `./dist/src/${path}.d.ts`, default: `./dist/src/${path}.js` }
    ])
    t.equal(manifest.type, 'module')
    t.strictSame(manifest.exports, { ...Object.fromEntries(forms), './package.json': './package.json' })
    for (const path of Object.values(entries)) {
      for (const type of ['d.ts', 'js']) t.ok(existsSync(new URL(`dist/src/${path}.${type}`, root)), path)
    }
  }
)

t.test('the package exports these values and types, and no other', async t => {
  const values = [
    'NEVER',
    'UNKNOWN',
    'allOf',
    'exposedHeaders',
    'firstOf',
    'memoryStore',
    'quota',
    'redisStore'
  ]
  t.strictSame(Object.keys(quotaModule).toSorted(), [...values, 'default', 'module.exports'].toSorted())
  t.strictSame(Object.keys(quotaModule.default).toSorted(), [...values, 'default', 'fastifyQuota'].toSorted())
  t.strictSame([quotaModule.NEVER, quotaModule.UNKNOWN], [NEVER, UNKNOWN])
  const declared = readFileSync(new URL('dist/src/index.d.ts', root), 'utf8')
  const types = [...declared.matchAll(/^export type \{ (.*) \}/gm)].flatMap(([, names = '']) =>
    names.split(', ')
  )
  t.strictSame(types.toSorted(), TYPES)
})

/** All that a store of one's own, a subject or a decision is written with. */
const TYPES = [
  'Algorithm',
  'AlgorithmName',
  'AllOf',
  'Answer',
  'Caps',
  'Charge',
  'Cost',
  'Decision',
  'Duration',
  'FailureMode',
  'Figures',
  'FirstOf',
  'Hook',
  'Identify',
  'Identity',
  'Lease',
  'Legacy',
  'MemoryStore',
  'MemoryStoreOptions',
  'MemoryUse',
  'OpenApiTransform',
  'Params',
  'Partition',
  'PartitionKey',
  'PartitionRule',
  'Parts',
  'Place',
  'PolicyChange',
  'PolicyOptions',
  'PolicyReference',
  'PolicyReport',
  'PolicyTerms',
  'Quota',
  'QuotaOptions',
  'QuotaPolicy',
  'QuotaReduction',
  'Receipt',
  'RedisClient',
  'RedisStore',
  'RedisStoreOptions',
  'ReduceOptions',
  'Reduction',
  'RequestQuota',
  'Reservation',
  'RouteQuota',
  'RouteQuotaOptions',
  'RouteReport',
  'ServiceLimit',
  'Settled',
  'Settlement',
  'ShortPolicy',
  'Source',
  'State',
  'Step',
  'Store',
  'StoreCall',
  'StoreChange',
  'Subject',
  'Terms',
  'UpdateOptions',
  'XRateLimit'
]

t.test('what the exports do not name cannot be imported', async t => {
  const { resolve } = createRequire(import.meta.url)
  t.equal(resolve('fastify-quota'), fileURLToPath(new URL('dist/src/index.js', root)))
  t.equal(resolve('fastify-quota/package.json'), fileURLToPath(new URL('package.json', root)))
  for (const path of ['plugin.js', 'dist/src/plugin.js', 'dist/test/package.test.js']) {
    t.throws(() => resolve(`fastify-quota/${path}`), { code: 'ERR_PACKAGE_PATH_NOT_EXPORTED' }, path)
  }
})

t.test('the package asks for the first Node.js 20 on which an ES module can be required', async t => {
  t.strictSame(manifest.engines, { node: '>=20.19' })
})

t.test('the package is published with its sources and changelog, and without tests', async t => {
  t.strictSame(manifest.files, ['dist/src', 'src', 'examples', 'CHANGELOG.md'])
  t.equal(manifest.license, 'MIT')
  for (const file of ['LICENSE', 'README.md', 'CHANGELOG.md']) t.ok(existsSync(new URL(file, root)), file)
})

t.test('the lock file agrees with package.json and names no registry', async t => {
  const { name, version, engines, dependencies } = manifest
  t.match(lock.packages[''], { name, version, engines, dependencies })
  const hosts = Object.entries(lock.packages).filter(([, { resolved }]) => resolved !== undefined)
  t.strictSame(hosts, [])
})

/** Runs an import form as a user's program and gives what it printed if it failed. */
function run(script: string): Promise<string> {
  // Without the test runner's loaders and coverage.
  const env = { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '' }
  const file = fileURLToPath(new URL(script, forms))
  return new Promise(resolve => {
    execFile(process.execPath, [file], { env, timeout: 60_000 }, (error, stdout, stderr) => {
      resolve(error === null ? '' : `${error.message}\n${stdout}${stderr}`)
    })
  })
}
