import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { budget } from './budget.js'
import { Project, packed, root } from './packed.js'

interface Manifest {
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>
  readonly bin: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
}

interface Lock {
  readonly packages: Readonly<Record<string, Partial<Manifest> & { readonly hasInstallScript?: boolean }>>
}

interface Analysis {
  readonly analysis: {
    readonly entrypoints: Readonly<Record<string, unknown>>
    readonly problems: readonly { readonly kind: string; readonly resolutionKind: string }[]
  }
}

const read = (name: string): unknown => JSON.parse(readFileSync(join(root, name), 'utf8'))
const manifest = read('package.json') as Manifest
const { file, size, unpackedSize, files } = await packed(t)
const here = new Project(t)

const tool = (path: string, ...parameters: readonly string[]): Promise<string> =>
  here.run(process.execPath, [join(root, 'node_modules', path), ...parameters])

t.test('publint has nothing to say', async t => {
  t.match(await tool('publint/src/cli.js', 'run', file, '--strict'), 'All good!')
})

t.test('the types of every export are right for whoever can import it', async t => {
  const answer = await tool(
    '@arethetypeswrong/cli/dist/index.js',
    file,
    '--format=json',
    '--profile=esm-only'
  )
  const { entrypoints, problems } = (JSON.parse(answer) as Analysis).analysis
  t.strictSame(Object.keys(entrypoints).toSorted(), Object.keys(manifest.exports).toSorted())
  // It is an ES module: `require` gives it since Node.js 20.19, and resolvers of before `exports` do not know it.
  const others = problems.filter(({ kind, resolutionKind }) => {
    if (resolutionKind === 'node10') return kind !== 'NoResolution'
    return resolutionKind !== 'node16-cjs' || kind !== 'CJSResolvesToESM'
  })
  t.strictSame(others, [])
})

t.test('it has what its exports and commands name, its sources, and nothing of the tests', async t => {
  const paths = new Set(files.map(({ path }) => path))
  const targets = [...Object.values(manifest.exports), ...Object.values(manifest.bin)].flatMap(target =>
    typeof target === 'string' ? [target] : Object.values(target)
  )
  for (const target of targets) t.ok(paths.has(target.replace(/^\.\//, '')), target)
  for (const path of ['README.md', 'CHANGELOG.md', 'LICENSE', 'src/index.ts', 'examples/quick-start.ts']) {
    t.ok(paths.has(path), path)
  }
  const allowed = /^(?:dist\/src|src|examples)\/|^(?:README\.md|CHANGELOG\.md|LICENSE|package\.json)$/
  t.strictSame(
    [...paths].filter(path => !allowed.test(path)),
    []
  )
})

t.test('it is no larger than the README says', async t => {
  t.comment(`${size} bytes packed, ${unpackedSize} unpacked, ${files.length} files`)
  t.ok(size <= budget.packed, `${size} bytes packed`)
  t.ok(unpackedSize <= budget.unpacked, `${unpackedSize} bytes unpacked`)
})

t.test(
  'it has as many dependencies as the README says, none of which runs a script to be installed',
  async t => {
    const { packages } = read('package-lock.json') as Lock
    const all = new Set<string>()
    const visit = (names: readonly string[], parent: string): void => {
      for (const name of names) {
        const nested = `${parent}/node_modules/${name}`
        const path = packages[nested] === undefined ? `node_modules/${name}` : nested
        if (all.has(path)) continue
        all.add(path)
        visit(Object.keys(packages[path]!.dependencies ?? {}), path)
      }
    }
    visit(Object.keys(manifest.dependencies), '')
    t.equal(Object.keys(manifest.dependencies).length, budget.dependencies)
    t.equal(all.size, budget.packages)
    t.strictSame(
      [...all].filter(path => packages[path]!.hasInstallScript === true),
      []
    )
  }
)
