import t from 'tap'
import { Newcomers } from '../src/newcomers.js'
import { compilePolicy } from '../src/policy.js'
import { Clock, serve, watchWarnings } from './plugin/kit.js'

const policy = compilePolicy('any', { quota: 5, window: '1m' }, [])
const rare = compilePolicy('rare', { quota: 5, window: '1m' }, [])

interface Watched {
  readonly clock: Clock
  readonly found: readonly string[]
  /** A request of somebody; whether there is more to be seen. */
  readonly see: (partition: string, of?: typeof policy) => boolean
}

function watching(policies: readonly string[] = ['any']): Watched {
  const clock = new Clock()
  const found: string[] = []
  const newcomers = new Newcomers(
    clock.read,
    () => policies,
    name => found.push(name)
  )
  const see = (partition: string, of = policy): boolean =>
    newcomers.see([{ partition, policy: of, units: 1 }])
  return { clock, found, see }
}

t.test('a policy that counts by what is new with each request is found, once', async t => {
  const { clock, found, see } = watching()
  for (let i = 0; i < 999; i++) t.equal(see(`request ${i}`), true)
  clock.pass(60_000)
  t.strictSame(found, [])
  t.equal(see('request 999'), false)
  t.strictSame(found, ['any'])
})

t.test('nobody is suspected before one window is over', async t => {
  const { clock, found, see } = watching()
  for (let i = 0; i < 1500; i++) see(`request ${i}`)
  clock.pass(59_999)
  t.equal(see('another'), true)
  clock.pass(1)
  t.equal(see('one more'), false)
  t.strictSame(found, ['any'])
})

t.test('three that come back are enough, two are not', async t => {
  const one = watching()
  for (let i = 0; i < 50; i++) one.see(`client ${i}`)
  t.equal(one.see('client 1'), true)
  t.equal(one.see('client 1'), true)
  t.equal(one.see('client 49'), false)
  t.strictSame(one.found, [])
})

t.test(
  'there is more to be seen until all policies are known, or a hundred thousand charges were',
  async t => {
    const { see, found } = watching(['any', 'rare'])
    for (let i = 0; i < 3; i++) see('client')
    t.equal(see('client'), true)
    t.equal(see('client', rare), true)
    for (let i = 0; i < 2; i++) see('client', rare)
    t.equal(see('client', rare), false)
    const other = watching(['any', 'rare'])
    for (let i = 0; i < 99_999; i++) other.see('client')
    t.equal(other.see('client'), false)
    t.strictSame(found, [])
  }
)

t.test('an app warns of such a policy', async t => {
  const { heard } = watchWarnings(t)
  const { app, clock } = await serve(t, {
    identify: { request: ({ id }) => id },
    policies: { each: { quota: 5, window: '1s', partition: 'request' }, all: { quota: 5000, window: '1s' } }
  })
  for (let i = 0; i < 1000; i++) {
    if (i === 999) clock.pass(1000)
    await app.inject('/')
  }
  t.match(await heard(), [{ code: 'FST_QUOTA_NEWCOMERS', message: 'policy "each" limits nobody' }])
})
