import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** Runs a program beside the tests and gives what it printed; fails if it does not end by itself. */
function run(program: string): Promise<unknown> {
  const env = { ...process.env, NODE_OPTIONS: '', NODE_V8_COVERAGE: '' }
  const start = `
    import { createHook } from 'node:async_hooks'
    import Fastify from 'fastify'
    import quota from 'fastify-quota'
    const timers = new Set()
    createHook({
      init: (id, type) => type === 'Timeout' && timers.add(id),
      destroy: id => timers.delete(id)
    }).enable()
    const start = async () => {
      const app = Fastify()
      await app.register(quota, { policies: { any: { quota: 1_000_000, window: '5m' } } })
      app.get('/', async () => 'served')
      return app
    }
    const soon = () => new Promise(resolve => setImmediate(resolve))
  `
  const args = ['--expose-gc', '--input-type=module', '-e', start + program]
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { cwd: root, env, timeout: 60_000 }, (error, stdout) => {
      if (error === null) resolve(JSON.parse(stdout))
      else reject(new Error(error.message))
    })
  })
}

t.test('a process ends by itself when its app is closed, and when it is not', async t => {
  t.equal(await run(`const app = await start(); await app.inject('/'); await app.close(); console.log(1)`), 1)
  t.equal(await run(`const app = await start(); await app.inject('/'); console.log(2)`), 2)
})

t.test('apps that are made and closed leave no timers', async t => {
  const [after1, after200] = (await run(`
    const after = []
    for (let i = 1; i <= 200; i++) {
      const app = await start()
      await app.inject('/')
      await app.close()
      await soon()
      if (i === 1 || i === 200) after.push(timers.size)
    }
    console.log(JSON.stringify(after))
  `)) as [number, number]
  t.ok(after200 <= after1, `${after200} after 200 apps, ${after1} after one`)
})

t.test('requests make no timers, and their contexts are not held', async t => {
  const [made, held] = (await run(`
    import { AsyncLocalStorage } from 'node:async_hooks'
    const context = new AsyncLocalStorage()
    const app = await start()
    await app.inject('/')
    const before = timers.size
    let contexts = []
    for (let i = 0; i < 1000; i++) {
      const store = { text: 'x'.repeat(10_000) + i }
      contexts.push(new WeakRef(store))
      const remoteAddress = '192.0.2.' + (i % 250)
      await context.run(store, () => app.inject({ url: '/', remoteAddress }))
    }
    const made = timers.size - before
    await soon()
    gc()
    await soon()
    gc()
    console.log(JSON.stringify([made, contexts.filter(ref => ref.deref() !== undefined).length]))
  `)) as [number, number]
  t.equal(made, 0)
  t.ok(held < 20, `${held} of 1000 are held`)
})
