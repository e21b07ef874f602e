import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'
import type { Test } from 'tap'
import { isOnPath } from '../installing.js'
import { UsageError } from './command-line.js'
import { built } from './revision.js'

const skip = isOnPath('git') ? false : 'there is no git on this machine'
const NODE_MODULES = fileURLToPath(new URL('../../../node_modules', import.meta.url))

/** A project of two commits that say different things, and of one more word that is in none. */
function project(t: Test): string {
  const folder = t.testdir({
    'package.json': JSON.stringify({ type: 'module', dependencies: {} }),
    'tsconfig.json': JSON.stringify({
      compilerOptions: { rootDir: '.', outDir: 'dist', module: 'nodenext', target: 'es2023', types: [] },
      include: ['src', 'test']
    }),
    '.gitignore': 'node_modules\ndist\n'
  })
  symlinkSync(NODE_MODULES, join(folder, 'node_modules'), 'junction')
  mkdirSync(join(folder, 'src'))
  const git = (...args: readonly string[]): unknown =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@localhost', ...args], { cwd: folder })
  const say = (word: string): void =>
    writeFileSync(join(folder, 'src/index.ts'), `export const word = '${word}'\n`)
  git('init', '--quiet')
  for (const word of ['first', 'second']) {
    say(word)
    git('add', '--all')
    git('commit', '--quiet', '--no-gpg-sign', '--message', word)
  }
  say('unsaid')
  return `${pathToFileURL(folder).href}/`
}

t.test('a revision is built in a folder of its own, which goes with its owner', { skip }, async t => {
  const here = project(t)
  const endings: (() => unknown)[] = []
  try {
    const there = await built({ teardown: work => endings.push(work) }, here, 'HEAD~1')
    const { word } = (await import(new URL('dist/src/index.js', there).href)) as { readonly word: string }
    t.equal(word, 'first')
    t.match(readFileSync(new URL('src/index.ts', here), 'utf8'), /unsaid/)
    t.equal(trees(here).length, 2)
  } finally {
    for (const end of endings.toReversed()) await end()
  }
  t.equal(trees(here).length, 1)
})

/** The folders that git has of a project, those that are gone included until they are forgotten. */
function trees(project: string): readonly string[] {
  const list = execFileSync('git', ['worktree', 'list'], { cwd: fileURLToPath(project), encoding: 'utf8' })
  return list.trim().split('\n')
}

t.test('what is no revision is refused, and nothing is built', { skip }, async t => {
  const here = project(t)
  for (const name of ['HEAD~7', 'nowhere', '--help', '']) {
    await t.rejects(
      built({ teardown: () => t.fail('nothing is to be ended') }, here, name),
      new UsageError(
        `--compare must be a revision of this repository, such as HEAD~1 or main, got ${JSON.stringify(name)}`
      )
    )
  }
})
