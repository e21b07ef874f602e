import { readdirSync, readFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { posix } from 'node:path'
import t from 'tap'

interface Import {
  /** As written, or for a relative one the path of the module below `src`, with the extension `.ts`. */
  readonly target: string
  readonly typeOnly: boolean
}

interface Rule {
  readonly why: string
  readonly modules: RegExp
  /** What these modules may import. */
  readonly mayImport?: RegExp
  /** What these modules may import types from, and nothing else. */
  readonly mayImportTypes?: RegExp
  /** What these modules must not import. */
  readonly mustNotImport?: RegExp
  /** What these modules must not import at run time. */
  readonly mustNotLoad?: RegExp
}

const rules: readonly Rule[] = [
  { why: 'the contract of the algorithms stands alone', modules: /^algorithm\.ts$/, mayImport: /^$/ },
  {
    why: 'algorithms know their contract and each other',
    modules: /^algorithms\//,
    mayImport: /^(algorithm\.ts$|algorithms\/)/
  },
  {
    why: 'what decides and what it looks like need no machine, no store and no clock',
    modules: /^(algorithms\/.*|decision\.ts|fields\.ts|problem\.ts|legacy\.ts)$/,
    mustNotImport: /^(node:|stores\/|(.*\/)?clock\.ts$)/
  },
  {
    why: 'stores know their contract, the algorithms and how to refuse an option, and neither HTTP nor Fastify',
    modules: /^stores\//,
    mayImport:
      /^((store|algorithm|later|options|errors|warnings)\.ts$|algorithms\/|stores\/|(?!fastify)[^.]+$)/,
    mayImportTypes: /^policy(-options)?\.ts$/
  },
  {
    why: 'only the plugin knows how Fastify plugins are made',
    modules: /^(?!plugin\.ts$)/,
    mustNotImport: /^fastify-plugin$/
  },
  { why: 'the application brings its own Fastify', modules: /^/, mustNotLoad: /^fastify$/ },
  { why: 'nothing needs the metrics', modules: /^(?!metrics\/)/, mustNotImport: /^metrics\// },
  { why: 'the application brings its own prom-client', modules: /^/, mustNotLoad: /^prom-client$/ },
  {
    why: 'metrics hear what channels tell, and know how to refuse an option',
    modules: /^metrics\//,
    mayImport: /^(metrics\/|(store|options|errors)\.ts$|node:)/,
    mayImportTypes: /^((decision|policy|quota)\.ts$|fastify$|prom-client$)/
  },
  {
    why: 'the application brings its own Redis client',
    modules: /^/,
    mustNotImport: /^(ioredis|iovalkey|redis)$/
  },
  {
    why: 'the simulator knows the algorithms and how to refuse an option, and needs no machine and no clock',
    modules: /^simulate\//,
    mayImport: /^(simulate\/|algorithms\/|(algorithm|options)\.ts$)/
  },
  {
    why: 'the audit knows the fields as a client does, and nothing of what it attacks',
    modules: /^audit\//,
    mayImport:
      /^(audit\/|client\/|simulate\/duration\.ts$|(options|problem|wire-names)\.ts$|node:|(undici|d3-scale|d3-shape)$)/
  },
  {
    why: 'the command line only wires',
    modules: /^cli\.ts$/,
    mayImport: /^(audit\/|simulate\/|node:|commander$)/
  },
  {
    why: 'nothing needs what moves here from another limiter',
    modules: /^(?!migrate(\.ts$|\/))/,
    mustNotImport: /^migrate(\.ts$|\/)/
  },
  { why: 'the names on the wire need nothing', modules: /^wire-names\.ts$/, mayImport: /^$/ },
  {
    why: 'the client knows the names on the wire and how to refuse an option, and runs in a browser',
    modules: /^client\/(?!testing\/)/,
    mayImport: /^(client\/(?!testing\/)|(wire-names|options)\.ts$)/
  },
  {
    why: 'the mock server writes what the plugin writes',
    modules: /^client\/testing\//,
    mayImport:
      /^(client\/(testing\/|errors\.ts$)|(fields|options|problem)\.ts$|node:(http|net|stream\/consumers)$)/
  },
  {
    why: 'nothing but the audit needs the client',
    modules: /^(?!(client|audit)\/)/,
    mustNotImport: /^client\//
  },
  {
    why: 'the plugin loads nothing of the command line',
    modules: /^(?!(audit\/|simulate\/|cli\.ts$))/,
    mustNotImport: /^(audit\/|simulate\/|cli\.ts$|commander$)/
  }
]

const root = new URL('../../', import.meta.url)
const manifest = JSON.parse(read('package.json')) as { dependencies: Record<string, string> }
const modules = new Map(list('src').map(module => [module, importsOf(read(`src/${module}`), module)]))

for (const rule of rules) {
  t.test(rule.why, async t => {
    for (const [module, imports] of modules) {
      if (rule.modules.test(module)) t.strictSame(imports.filter(broken(rule)).map(name), [], module)
    }
  })
}

t.test('dependencies are what src imports, and nothing else', async t => {
  const bare = [...modules.values()].flat().filter(({ target }) => !target.endsWith('.ts'))
  const packages = bare.filter(({ target }) => !target.startsWith('node:'))
  const builtins = packages.filter(({ target }) => builtinModules.includes(target))
  t.strictSame(builtins.map(name), [], 'modules of Node.js are imported as node:')
  // The types of these come with the application.
  const imported = new Set(
    packages
      .map(name)
      .map(packageName)
      .filter(name => name !== 'fastify' && name !== 'prom-client')
  )
  t.strictSame([...imported].sort(), Object.keys(manifest.dependencies).sort())
})

t.test('every relative import names a module of src', async t => {
  for (const [module, imports] of modules) {
    const missing = imports.filter(({ target }) => target.endsWith('.ts') && !modules.has(target))
    t.strictSame(missing.map(name), [], module)
  }
})

t.test('no module loads itself by way of others', async t => {
  t.strictSame(cycle(modules), [])
})

t.test('every module that does something has a test of its name', async t => {
  const tests = list('test')
    .filter(name => name.endsWith('.test.ts'))
    .map(name => stem(name, '.test.ts'))
  for (const module of modules.keys()) {
    if (module.endsWith('index.ts') || onlyTypes(module)) continue
    t.ok(
      tests.some(test => test.startsWith(stem(module, '.ts'))),
      module
    )
  }
})

t.test('the reader of imports sees each form, and none in comments', async t => {
  const source = `
    /**
     * import doc from 'comment'
     */
import a from './a.js'
import type { B } from '../b.js'
import {
  c,
  d
} from 'c'
import e, { f } from '@scope/e/f.js'
import * as g from 'node:g'
import 'side-effect'
// import h from 'h'
export interface I { readonly from: 'nowhere' }
export const j = 'j'
export * from './sub/k.js'
export type { L } from './l.js'
export { j as 'module.exports' }
const m = await import('m')
`
  t.strictSame(importsOf(source, 'stores/x.ts'), [
    { target: 'stores/a.ts', typeOnly: false },
    { target: 'b.ts', typeOnly: true },
    { target: 'c', typeOnly: false },
    { target: '@scope/e/f.js', typeOnly: false },
    { target: 'node:g', typeOnly: false },
    { target: 'side-effect', typeOnly: false },
    { target: 'stores/sub/k.ts', typeOnly: false },
    { target: 'stores/l.ts', typeOnly: true },
    { target: 'm', typeOnly: false }
  ])
  t.equal(packageName('@scope/e/f.js'), '@scope/e')
  t.equal(packageName('c/d'), 'c')
})

t.test('the finder of cycles finds one of run-time imports, and none of types', async t => {
  const chain = (typeOnly: boolean): Map<string, Import[]> =>
    new Map([
      ['a.ts', [{ target: 'b.ts', typeOnly: false }]],
      ['b.ts', [{ target: 'c.ts', typeOnly: false }]],
      ['c.ts', [{ target: 'b.ts', typeOnly }]]
    ])
  t.strictSame(cycle(chain(false)), ['b.ts', 'c.ts', 'b.ts'])
  t.strictSame(cycle(chain(true)), [])
})

function read(path: string): string {
  return readFileSync(new URL(path, root), 'utf8')
}

/** The paths of the TypeScript files below a folder of the project, with `/` on every system. */
function list(folder: string): string[] {
  const names = readdirSync(new URL(folder, root), { recursive: true, encoding: 'utf8' })
  return names
    .map(name => name.replaceAll('\\', '/'))
    .filter(name => name.endsWith('.ts'))
    .sort()
}

function importsOf(source: string, module: string): Import[] {
  const code = source.replaceAll(/^\s*\/\*[\s\S]*?\*\//gm, '').replaceAll(/^\s*\/\/.*$/gm, '')
  const statements = code.matchAll(
    /^(?:import|export)\s+(?<type>type\s+)?(?:[\w$*\s,]*(?:\{[^{}]*\})?\s*from\s+)?'(?<path>[^']+)'/gm
  )
  const calls = code.matchAll(/\bimport\(\s*'(?<path>[^']+)'\s*\)/g)
  return [...statements, ...calls].map(({ groups }) => {
    const path = groups?.['path'] ?? ''
    const typeOnly = groups?.['type'] !== undefined
    if (!path.startsWith('.')) return { target: path, typeOnly }
    return { target: posix.join(posix.dirname(module), path).replace(/\.js$/, '.ts'), typeOnly }
  })
}

function broken(rule: Rule): (imported: Import) => boolean {
  return ({ target, typeOnly }) => {
    if (rule.mustNotImport?.test(target) === true) return true
    if (rule.mustNotLoad?.test(target) === true) return !typeOnly
    if (rule.mayImport === undefined || rule.mayImport.test(target)) return false
    return !(typeOnly && rule.mayImportTypes?.test(target) === true)
  }
}

function name({ target }: Import): string {
  return target
}

function packageName(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
}

function stem(path: string, ending: string): string {
  return path.slice(0, -ending.length)
}

/** Whether nothing is left of a module when its types are gone. */
function onlyTypes(module: string): boolean {
  const compiled = read(`dist/src/${stem(module, '.ts')}.js`)
  const code = compiled.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/^\s*\/\/.*$/gm, '')
  return code.trim() === 'export {};'
}

/** The first cycle of run-time imports, its first module repeated at the end; empty if there is none. */
function cycle(graph: ReadonlyMap<string, readonly Import[]>): string[] {
  const done = new Set<string>()
  const visit = (module: string, path: readonly string[]): string[] => {
    if (path.includes(module)) return [...path.slice(path.indexOf(module)), module]
    if (done.has(module)) return []
    for (const { target, typeOnly } of graph.get(module) ?? []) {
      const found = typeOnly ? [] : visit(target, [...path, module])
      if (found.length > 0) return found
    }
    done.add(module)
    return []
  }
  for (const module of graph.keys()) {
    const found = visit(module, [])
    if (found.length > 0) return found
  }
  return []
}
