import { cpSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { budget } from './budget.js'
import { firstExample, shown } from './first-example.js'
import { Project, packed, root } from './packed.js'

/* What a user does: `npm init`, `npm install`, the first example, `curl -i`, each way to import the package, each Node.js. */

const VERSIONS = ['20.19', '22', '24', '26']

t.setTimeout(1_200_000)

const { file } = await packed(t)
const project = new Project(t)
await project.run('npm', ['init', '-y'])
await project.install('fastify@5')
const before = listed()
await project.install(file)
const after = listed()

/** All files that are installed, by path. */
function listed(): ReadonlyMap<string, number> {
  const modules = join(project.folder, 'node_modules')
  const entries = readdirSync(modules, { recursive: true, withFileTypes: true })
  const files = entries.filter(entry => entry.isFile()).map(entry => join(entry.parentPath, entry.name))
  return new Map(files.map(path => [path.slice(modules.length + 1), readFileSync(path).length]))
}

const total = (sizes: ReadonlyMap<string, number>): number =>
  [...sizes.values()].reduce((sum, size) => sum + size)

t.test('it adds no more to a project than the README says', async t => {
  const added = total(after) - total(before)
  t.comment(`${added} bytes in ${after.size - before.size} files`)
  t.ok(added > 0 && added <= budget.added, `${added} bytes`)
})

t.test('nothing that comes with it runs a script to be installed', async t => {
  const manifests = [...after.keys()].filter(path => /^(?:@[^/]+\/)?[^/]+\/package\.json$/.test(path))
  t.ok(manifests.includes('fastify-quota/package.json'))
  for (const path of manifests) {
    const manifest = readFileSync(join(project.folder, 'node_modules', path), 'utf8')
    const { scripts = {} } = JSON.parse(manifest) as { readonly scripts?: Readonly<Record<string, string>> }
    const installing = Object.keys(scripts).filter(name => /^(?:pre|post)?install$/.test(name))
    t.strictSame(installing, [], path)
  }
})

const { program, required, answer } = firstExample()
writeFileSync(join(project.folder, 'first.mjs'), program)
writeFileSync(join(project.folder, 'first.cjs'), required)
cpSync(join(root, 'test/fixtures/imports'), join(project.folder, 'imports'), { recursive: true })

const forms = readdirSync(join(project.folder, 'imports')).filter(
  name => !/^(?:all|probe)\./.test(name)
).length

for (const version of VERSIONS) {
  const node = (program: string): Promise<string> =>
    project.run('npx', ['-y', '-p', `node@${version}`, 'node', program])

  for (const [kind, file] of [
    ['an ES module', 'first.mjs'],
    ['CommonJS', 'first.cjs']
  ] as const) {
    t.test(
      `on Node.js ${version}, as ${kind}, curl shows of the first example what the README says`,
      async t => {
        const lines = shown(await node(file))
        t.ok(lines.includes('HTTP/1.1 200 OK'))
        t.strictSame(lines, answer)
      }
    )
  }

  t.test(`on Node.js ${version} it can be imported and required in every way`, async t => {
    const told = await node('imports/all.mjs')
    t.ok(told.startsWith(`Node.js v${version}.`), told)
    t.ok(told.endsWith(`: ${forms} of ${forms} import forms work\n`), told)
  })
}

t.test('its command runs', async t => {
  const simulated = await project.run('npx', ['--no', 'fastify-quota', 'simulate', '--scenario', 'B'])
  t.match(simulated, /^sliding-window, precision 10 +10 +10 +1\.00x/m)
})
