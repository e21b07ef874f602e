import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { attack, before, build, moved } from '../../examples/migrate.js'

/** Waits pass while the attack does. */
const timeless = (line: string): string => line.replaceAll(/wait \d+|in \d+ \w+/g, '…')

t.test('the app does the same under attack, before and after its options are moved', async t => {
  const lines = (await attack(await before())).map(timeless)
  t.strictSame(lines, [
    'GET /items without a key: 5 of 8 served, the others 429, limit 5, … s: {"statusCode":429,"message":"Come back …."}',
    'GET /items key-of-somebody: 5 of 8 served, the others 429, limit 5, … s: {"statusCode":429,"message":"Come back …."}',
    'GET /items key-of-our-own: 8 of 8 served',
    'POST /login without a key: 2 of 4 served, the others 429, limit 2, … s: {"statusCode":429,"message":"Come back …."}',
    'GET /health without a key: 8 of 8 served'
  ])
  t.strictSame((await attack(await build())).map(timeless), lines)
})

t.test('and serves as much when nothing of the old is left', async t => {
  const served = (line: string): string => line.split(',')[0]!
  t.strictSame((await attack(await moved())).map(served), (await attack(await build())).map(served))
})

t.test('run as a program, it shows both side by side', async t => {
  const program = fileURLToPath(new URL('../../examples/migrate.js', import.meta.url))
  const { stdout, status } = spawnSync(process.execPath, [program], { encoding: 'utf8' })
  t.equal(status, 0)
  const pairs = stdout
    .trimEnd()
    .split('\n\n')
    .map(pair => pair.split('\n').map(timeless))
  t.equal(pairs.length, 5)
  for (const [theirs, ours] of pairs) {
    t.equal(theirs?.replace('@fastify/rate-limit  ', ''), ours?.replace('fastify-quota        ', ''))
  }
})
