import Fastify from 'fastify'
import type { FastifyReply } from 'fastify'
import t from 'tap'
import { replace, restore, restored, textOf } from '../src/shared-fields.js'

/** The field that is left after some work on a reply; `undefined`: none. */
async function left(work: (reply: FastifyReply) => void): Promise<unknown> {
  const app = Fastify()
  app.get('/', (_request, reply) => {
    work(reply)
    reply.send('served')
  })
  const { headers } = await app.inject('/')
  await app.close()
  return headers['ratelimit']
}

t.test('ours takes its place among those of others, and theirs stay', async t => {
  const table: readonly (readonly [
    there: string | undefined,
    before: string,
    own: string,
    wanted: unknown
  ])[] = [
    [undefined, '', '"a";r=1', '"a";r=1'],
    ['"a";r=1', '"a";r=1', '"a";r=2', '"a";r=2'],
    ['"a";r=1', '"a";r=1', '', undefined],
    ['"x";r=9', '', '"a";r=1', '"x";r=9, "a";r=1'],
    ['"x";r=9, "a";r=1, "y";r=8', '"a";r=1', '"a";r=2', '"x";r=9, "a";r=2, "y";r=8'],
    ['"x";r=9, "a";r=1', '"a";r=1', '', '"x";r=9'],
    ['"a";r=10', '"a";r=1', '"a";r=0', '"a";r=10, "a";r=0']
  ]
  for (const [there, before, own, wanted] of table) {
    const got = await left(reply => {
      if (there !== undefined) reply.header('ratelimit', there)
      t.equal(replace(reply, 'ratelimit', before, own), own)
    })
    t.equal(got, wanted, `${there} with ${own} for ${before}`)
  }
})

t.test('ours joins what somebody has set since, and nothing that was removed', async t => {
  const after = (there: string | undefined): Promise<unknown> =>
    left(reply => {
      if (there !== undefined) reply.header('ratelimit', there)
      restore(reply, 'ratelimit', '"a";r=1')
    })
  t.equal(await after('"x";r=9'), '"x";r=9, "a";r=1')
  t.equal(await after('"x";r=9, "a";r=1'), '"x";r=9, "a";r=1')
  t.equal(await after(undefined), undefined)
})

t.test('a Response is another one if ours was missing from its field', async t => {
  const response = new Response('body', { status: 201, headers: { ratelimit: '"x";r=9' } })
  t.equal(restored(response, [['ratelimit', '"x";r=9']]), response)
  t.equal(
    restored(response, [['ratelimit-policy', '"a";q=1']]),
    response,
    'a field that is not there stays away'
  )
  const other = restored(response, [['ratelimit', '"a";r=1']])
  t.strictSame(
    [other.status, other.headers.get('ratelimit'), await other.text()],
    [201, '"x";r=9, "a";r=1', 'body']
  )
})

t.test('a field set as a list is its members, joined', async t => {
  await left(reply => {
    t.equal(textOf(reply, 'ratelimit'), '')
    reply.header('ratelimit', ['"x";r=9', '"y";r=8'])
    t.equal(textOf(reply, 'ratelimit'), '"x";r=9, "y";r=8')
  })
})
