import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { MeteredBody } from '../src/metering.js'
import type { ChargeBytes, Source } from '../src/metering.js'

const BATCH = 65_536

/** A source that is fed by hand. */
class Fed extends PassThrough {
  declare receivedEncodedLength?: number
}

interface Metered {
  readonly source: Fed
  readonly body: MeteredBody
  readonly charged: number[]
}

/** Meters a source; what is charged is written down, and allowed up to `quota`. */
function meter(quota = Infinity, source: Fed = new Fed({ highWaterMark: 1e6 })): Metered {
  const charged: number[] = []
  let left = quota
  const body = new MeteredBody(source, bytes => {
    if (bytes > left) return false
    left -= bytes
    charged.push(bytes)
    return true
  })
  return { source, body, charged }
}

const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

t.test('a batch is charged when it is full, the rest at the end, and nothing is changed', async t => {
  const { source, body, charged } = meter()
  const chunks = ['a', 'b', 'c'].map(letter => letter.repeat(BATCH - 1))
  const read = text(body)
  for (const chunk of chunks) source.write(chunk)
  await turn()
  t.strictSame(charged, [2 * (BATCH - 1)], 'not before it is full')
  source.end()
  t.equal(await read, chunks.join(''))
  t.strictSame(charged, [2 * (BATCH - 1), BATCH - 1])
  t.equal(body.receivedEncodedLength, 3 * (BATCH - 1))
})

t.test('exactly a batch is a batch', async t => {
  const { source, body, charged } = meter()
  const read = text(body)
  source.write('x'.repeat(BATCH))
  await turn()
  t.strictSame(charged, [BATCH])
  source.end()
  await read
  t.strictSame(charged, [BATCH])
})

t.test('an empty body is not charged', async t => {
  const { source, body, charged } = meter()
  source.end()
  t.equal(await text(body), '')
  t.strictSame(charged, [])
})

t.test('the rest is charged before the end is seen', async t => {
  let allow: (allowed: boolean) => void = () => {}
  const source = new Fed()
  const body = new MeteredBody(source, () => new Promise(resolve => (allow = resolve)))
  let isOver = false
  const read = text(body).then(() => (isOver = true))
  source.end('rest')
  await turn()
  t.equal(isOver, false)
  allow(true)
  await read
})

t.test('text is counted in bytes', async t => {
  const source = Readable.from(['Grüße', ' 🍋']) as Source
  const charged: number[] = []
  const body = new MeteredBody(source, bytes => (charged.push(bytes), true))
  t.equal(await text(body), 'Grüße 🍋')
  t.strictSame(charged, [Buffer.byteLength('Grüße 🍋')])
})

t.test('a source that was decoded says how much was sent', async t => {
  const { source, body, charged } = meter()
  source.receivedEncodedLength = 10
  const read = text(body)
  source.write('decoded and much longer than that')
  await turn()
  t.equal(body.receivedEncodedLength, 10)
  source.receivedEncodedLength = 12 // its end had no content
  source.end()
  await read
  t.strictSame(charged, [12])
  t.equal(body.receivedEncodedLength, 12)
})

for (const later of [false, true]) {
  t.test(
    `after a refusal nothing comes, not even an end, and the source runs dry: ${later ? 'later' : 'at once'}`,
    async t => {
      const charged: number[] = []
      const charge: ChargeBytes = bytes => {
        if (charged.length > 0) return later ? Promise.resolve(false) : false
        charged.push(bytes)
        return later ? Promise.resolve(true) : true
      }
      const source = new Fed({ highWaterMark: 1e6 })
      const body = new MeteredBody(source, charge)
      const seen: string[] = []
      for (const event of ['end', 'error', 'close']) body.on(event, () => seen.push(event))
      let length = 0
      body.on('data', (data: Buffer) => (length += data.length))
      source.write('a'.repeat(BATCH))
      source.write('b'.repeat(BATCH))
      await once(body, 'close')
      t.equal(length, BATCH)
      source.write('c'.repeat(BATCH))
      source.end('d')
      await once(source, 'end')
      t.strictSame(charged, [BATCH])
      t.strictSame(seen, ['close'])
    }
  )
}

t.test('the rest may be refused', async t => {
  const { source, body, charged } = meter(3)
  body.on('data', () => {})
  body.on('end', () => t.fail('it has no end'))
  source.end('four')
  await once(body, 'close')
  t.strictSame(charged, [])
})

t.test('what has come of a body that breaks off is charged, once', async t => {
  for (const error of [undefined, new Error('reset')]) {
    const { source, body, charged } = meter()
    const errors: unknown[] = []
    body.on('error', failure => errors.push(failure))
    body.resume()
    source.write('x'.repeat(1234))
    await turn()
    source.destroy(error)
    await new Promise(closed => body.on('close', closed))
    t.strictSame(charged, [1234])
    t.strictSame(errors, error === undefined ? [] : [error])
  }
})

t.test('what breaks off may be refused to nobody', async t => {
  const { source, body, charged } = meter(10)
  body.resume()
  source.write('x'.repeat(1234))
  await turn()
  source.destroy()
  await once(body, 'close')
  t.strictSame(charged, [])
})

t.test('nobody has to listen for errors', async t => {
  const { source, body } = meter()
  source.on('error', () => {})
  body.resume()
  await turn()
  source.destroy(new Error('reset'))
  await new Promise(closed => body.on('close', closed))
  t.equal(body.errored, null)
})

t.test('what fails to be charged fails as the server, not as the client', async t => {
  const charges: readonly ChargeBytes[] = [
    () => Promise.reject(new Error('out of order')),
    () => {
      throw new Error('out of order')
    }
  ]
  for (const charge of charges) {
    const source = new Fed()
    const body = new MeteredBody(source, charge)
    body.resume()
    source.end('x')
    const [error] = (await once(body, 'error')) as [Error]
    t.match(error, { message: 'out of order', statusCode: 500 })
  }
})

t.test('a body that nobody reads is not touched', async t => {
  const { source, body, charged } = meter()
  source.write('x'.repeat(1000))
  await turn()
  t.equal(source.readableLength, 1000)
  t.equal(source.readableFlowing, null)
  t.strictSame(charged, [])
  source.on('error', () => {})
  source.destroy(new Error('reset'))
  await new Promise(closed => source.on('close', closed))
  t.equal(body.destroyed, false)
})

t.test('who reads the source itself loses nothing, and is charged', async t => {
  const readers: readonly ((source: Fed) => Promise<string>)[] = [
    source => text(source),
    source => text(source.pipe(new PassThrough())),
    async source => {
      source.on('close', () => {})
      let read = ''
      source.on('data', data => (read += String(data)))
      await once(source, 'end')
      return read
    },
    async source => {
      let read = ''
      source.on('readable', () => {
        for (let data; (data = source.read() as Buffer | null) !== null;) read += data.toString()
      })
      await once(source, 'end')
      return read
    }
  ]
  for (const reader of readers) {
    const { source, charged } = meter()
    const read = reader(source)
    source.write('a'.repeat(BATCH))
    await turn()
    source.end('b'.repeat(100))
    t.equal(await read, 'a'.repeat(BATCH) + 'b'.repeat(100))
    await turn()
    t.strictSame(charged, [BATCH, 100])
    t.equal(source.listenerCount('newListener'), 0)
  }
})

t.test('who reads the source itself and breaks off is charged what has come', async t => {
  const { source, charged } = meter()
  source.resume()
  source.on('data', () => {})
  source.write('x'.repeat(100))
  await turn()
  source.destroy()
  await once(source, 'close')
  t.strictSame(charged, [100])
})

t.test('who reads the source itself is charged no more after a refusal, and reads on', async t => {
  let asked = 0
  const source = new Fed({ highWaterMark: 1e6 })
  const body = new MeteredBody(source, () => {
    asked++
    return false
  })
  const read = text(source)
  for (let i = 0; i < 3; i++) source.write('x'.repeat(BATCH))
  source.end()
  t.equal((await read).length, 3 * BATCH)
  t.equal(asked, 1)
  t.equal(body.destroyed, true)
})
