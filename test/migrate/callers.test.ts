import t from 'tap'
import { CommonTime, as, from, opened } from './kit.js'

t.test('keys are found once for a request, whoever asks for them', async t => {
  const asked: string[] = []
  const app = await opened(t, 'ours', new CommonTime(t), {
    options: {
      max: (_request, key) => key.length,
      keyGenerator: request => {
        asked.push(request.url)
        return 'key'
      },
      allowList: (_request, key) => key === 'other',
      onExceeding: () => {},
      onExceeded: () => {}
    }
  })
  t.match((await app.inject('/')).headers, { 'x-ratelimit-limit': '3' })
  t.strictSame(asked, ['/'])
})

t.test('a list of keys may be asked before anybody was identified', async t => {
  const app = await opened(t, 'ours', new CommonTime(t), { options: { max: 1, allowList: ['192.0.2.1'] } })
  for (let i = 0; i < 2; i++) t.equal((await app.inject(from('192.0.2.1'))).statusCode, 200)
})

t.test('a client without an address is on no list', async t => {
  const app = await opened(t, 'ours', new CommonTime(t), { options: { max: 1, allowList: ['nowhere'] } })
  const statuses = [await app.inject(from('')), await app.inject(from(''))].map(
    ({ statusCode }) => statusCode
  )
  t.strictSame(statuses, [200, 429])
})

t.test('the key that functions are told is the address where there is none', async t => {
  const told: string[] = []
  const app = await opened(t, 'ours', new CommonTime(t), {
    options: {
      max: 1,
      keyGenerator: request => request.headers['x-user'] as string,
      allowList: () => false,
      onExceeded: (_request, key) => void told.push(key)
    }
  })
  for (const request of [from('192.0.2.1'), from('192.0.2.1'), as('user'), as('user')])
    await app.inject(request)
  t.strictSame(told, ['192.0.2.1', 'user'])
})

t.test('a network of its own length makes a route count apart', async t => {
  const app = await opened(t, 'ours', new CommonTime(t), {
    options: { max: 1 },
    routes: { '/wide': { ipv6Subnet: 48 } }
  })
  const statuses: number[] = []
  for (const request of [
    from('2001:db8:1:1::1', '/wide'),
    from('2001:db8:1:2::1', '/wide'),
    from('2001:db8:1:1::1'),
    from('2001:db8:1:2::1')
  ])
    statuses.push((await app.inject(request)).statusCode)
  t.strictSame(statuses, [200, 429, 200, 200])
})
