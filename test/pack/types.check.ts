import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { firstExample, shown } from './first-example.js'
import { Project, packed, root } from './packed.js'

/*
 * What a user of TypeScript does: a program that uses all the package offers, and the first example of the README, are
 * compiled by each TypeScript, with and without a bundler, and run with the oldest Fastify 5 and the newest.
 */

const COMPILERS = ['5.9', '6', '7']
const BESIDE = ['@types/node@20', 'ioredis@6', 'prom-client@15']

t.setTimeout(1_200_000)
t.jobs = 2

const { file } = await packed(t)
const compilers = new Project(t)
await compilers.install(...COMPILERS.map(version => `typescript-${version}@npm:typescript@~${full(version)}`))

function full(version: string): string {
  return version.includes('.') ? version : `${version}.0`
}

const consumer = async (fastify: string): Promise<Project> => {
  const project = new Project(t)
  writeFileSync(join(project.folder, 'package.json'), '{ "private": true, "type": "module" }')
  await project.install(file, `fastify@${fastify}`, ...BESIDE)
  cpSync(join(root, 'test/fixtures/consumer'), project.folder, { recursive: true })
  writeFileSync(join(project.folder, 'first.ts'), firstExample().program)
  return project
}

const compile = (project: Project, version: string, ...parameters: readonly string[]): Promise<string> => {
  const compiler = join(compilers.folder, 'node_modules', `typescript-${version}`, 'bin', 'tsc')
  return project.run(process.execPath, [compiler, ...parameters])
}

const oldest = await consumer('5.0.0')
const newest = await consumer('5')

for (const version of COMPILERS) {
  t.test(`TypeScript ${version} finds nothing wrong, in the declarations of the package either`, async t => {
    t.match(await compile(newest, version, '--version'), `Version ${version}`)
    t.equal(await compile(newest, version, '-p', '.', '--outDir', `compiled-${version}`), '')
    t.equal(await compile(newest, version, '-p', 'tsconfig.bundler.json', '--skipLibCheck'), '')
    t.equal(await newest.run(process.execPath, [`compiled-${version}/required.cjs`]), '')
    const printed = await newest.run(process.execPath, [`compiled-${version}/first.js`])
    t.strictSame(shown(printed), firstExample().answer)
  })
}

for (const [fastify, project] of [
  ['oldest', oldest],
  ['newest', newest]
] as const) {
  t.test(`all that the package offers works with the ${fastify} Fastify 5`, async t => {
    t.equal(await compile(project, '7', '-p', '.'), '')
    const version = await project.run(process.execPath, ['-p', "require('fastify/package.json').version"])
    if (fastify === 'oldest') t.equal(version, '5.0.0\n')
    else t.match(version, /^5\.(?!0\.)/)
    const told = await project.run(process.execPath, ['compiled/smoke.js', version.trim()])
    t.match(told, /^# fail 0$/m)
    t.match(told, /^# pass (?!0)\d+$/m)
  })
}
