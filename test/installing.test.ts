import { basename } from 'node:path'
import t from 'tap'
import { isOnPath, isProgram, planPackages, thisMachine, whereIs } from './installing.js'

t.test('what is missing is installed by root with apt, and explained to all others', async t => {
  for (const isRoot of [true, false]) {
    for (const hasApt of [true, false]) {
      t.equal(planPackages([], { isRoot, hasApt }), 'nothing')
      const expected = isRoot && hasApt ? { packages: ['one', 'two'] } : 'explain'
      t.strictSame(planPackages(['one', 'two'], { isRoot, hasApt }), expected)
    }
  }
})

t.test('a program is found where the PATH has it', async t => {
  t.equal(basename(whereIs('sh') ?? ''), 'sh')
  t.equal(isOnPath('sh'), true)
  t.equal(whereIs('no-such-program'), undefined)
  t.equal(isOnPath('no-such-program'), false)
  t.equal(thisMachine().isRoot, process.getuid?.() === 0)
})

t.test('a module that is imported is not the program', async t => {
  t.equal(isProgram(import.meta), true)
  t.equal(isProgram({ ...import.meta, filename: new URL('installing.js', import.meta.url).pathname }), false)
})
