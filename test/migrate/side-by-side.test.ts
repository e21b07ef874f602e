import type { FastifyRequest, LightMyRequestResponse } from 'fastify'
import t from 'tap'
import { CommonTime, as, from, lineOf, opened, times, walk } from './kit.js'
import type { Limiter, Step, Written } from './kit.js'

/** What an app does behind either limiter. */
interface Row {
  readonly written: (told: string[]) => Written
  readonly steps: readonly Step[]
  readonly show?: (answer: LightMyRequestResponse) => string
  /** What both answer, or what each does. */
  readonly answers: readonly string[] | Readonly<Record<Limiter, readonly string[]>>
  /** What the operator's functions were told, if anything. */
  readonly told?: readonly string[] | Readonly<Record<Limiter, readonly string[]>>
}

const status = ({ statusCode }: LightMyRequestResponse): string => String(statusCode)
const body = ({ statusCode, headers, payload }: LightMyRequestResponse): string =>
  `${statusCode} ${String(headers['content-type'])} ${payload}`

const user = (request: FastifyRequest): string => String(request.headers['x-user'])
const two = { max: 2, timeWindow: '1 minute' } as const

/** Where both do the same. */
const SAME: Readonly<Record<string, Row>> = {
  'a limit counts down, refuses and begins anew when its window is over': {
    written: () => ({ options: two }),
    steps: ['/', { wait: 10_000 }, '/', '/', { wait: 49_999 }, '/', { wait: 1 }, '/'],
    answers: [
      '200 limit=2 remaining=1 reset=60',
      '200 limit=2 remaining=0 reset=50',
      '429 limit=2 remaining=0 reset=50 retry=50',
      '429 limit=2 remaining=0 reset=1 retry=1',
      '200 limit=2 remaining=1 reset=60'
    ]
  },
  'a fixed window admits twice the limit around its edge': {
    written: () => ({ options: two }),
    steps: ['/', { wait: 59_999 }, '/', { wait: 1 }, ...times(3)],
    show: status,
    answers: ['200', '200', '200', '200', '429']
  },
  'a thousand a minute is the default': {
    written: () => ({}),
    steps: ['/'],
    answers: ['200 limit=1000 remaining=999 reset=60']
  },
  'timeWindow may be milliseconds, and max a fraction': {
    written: () => ({ options: { max: 1.9, timeWindow: 5000 } }),
    steps: times(2),
    answers: ['200 limit=1 remaining=0 reset=5', '429 limit=1 remaining=0 reset=5 retry=5']
  },
  'a window of less than a second is told as one': {
    written: () => ({ options: { max: 1, timeWindow: 250 } }),
    steps: ['/', '/', { wait: 250 }, '/'],
    answers: [
      '200 limit=1 remaining=0 reset=1',
      '429 limit=1 remaining=0 reset=1 retry=1',
      '200 limit=1 remaining=0 reset=1'
    ]
  },
  'clients have their own limits, whatever the path': {
    written: () => ({ options: two, routes: { '/a': undefined } }),
    steps: [from('192.0.2.1'), from('192.0.2.1', '/a'), from('192.0.2.1'), from('192.0.2.2')],
    show: status,
    answers: ['200', '200', '429', '200']
  },
  'addresses of a network of IPv6 are one client, and one of IPv4 written as IPv6 is that': {
    written: () => ({ options: { ...two, ipv6Subnet: 56 } }),
    steps: [
      from('2001:db8:0:100::1'),
      from('2001:db8:0:1ff::2'),
      from('2001:db8:0:180::3'),
      from('2001:db8:0:200::1'),
      from('::ffff:192.0.2.1'),
      from('192.0.2.1'),
      from('192.0.2.1')
    ],
    show: status,
    answers: ['200', '200', '429', '200', '200', '200', '429']
  },
  'a route may have a limit of its own, which counts apart': {
    written: () => ({
      options: two,
      routes: { '/login': { max: 1 }, '/items/:id': { timeWindow: '1 hour' } }
    }),
    steps: ['/login', '/login', '/items/1', '/items/2', '/items/3', '/', '/'],
    answers: [
      '200 limit=1 remaining=0 reset=60',
      '429 limit=1 remaining=0 reset=60 retry=60',
      '200 limit=2 remaining=1 reset=3600',
      '200 limit=2 remaining=0 reset=3600',
      '429 limit=2 remaining=0 reset=3600 retry=3600',
      '200 limit=2 remaining=1 reset=60',
      '200 limit=2 remaining=0 reset=60'
    ]
  },
  'paths that look alike count apart': {
    written: () => ({
      options: two,
      routes: { '/a/b': { max: 1 }, '/a-b': { max: 1 }, '/a/:b': { max: 1 } }
    }),
    steps: ['/a/b', '/a-b', '/a/c', '/a/b'],
    show: status,
    answers: ['200', '200', '200', '429']
  },
  'a route without a limit has none': {
    written: () => ({ options: two, routes: { '/health': false } }),
    steps: times(3, '/health'),
    answers: ['200', '200', '200']
  },
  'global: false limits only routes that say so': {
    written: () => ({ options: { ...two, global: false }, routes: { '/a': {} } }),
    steps: [...times(3), ...times(3, '/a')],
    show: status,
    answers: ['200', '200', '200', '200', '200', '429']
  },
  'keyGenerator tells clients apart, and may take its time': {
    written: () => ({
      options: { ...two, keyGenerator: async request => user(request) },
      routes: { '/a': { keyGenerator: () => 7 } }
    }),
    steps: [as('1'), as('1'), as('1'), as('2'), as('1', '/a'), as('2', '/a'), as('3', '/a')],
    show: status,
    answers: ['200', '200', '429', '200', '200', '200', '429']
  },
  'max may depend on the request and its key, now or later': {
    written: () => ({
      options: { ...two, keyGenerator: user, max: (_request, key) => (key === 'paid' ? 3 : 1) },
      routes: { '/later': { max: async (_request, key) => key.length } }
    }),
    steps: [...times(4, as('paid')), ...times(2, as('free')), ...times(3, as('ab', '/later'))],
    answers: [
      '200 limit=3 remaining=2 reset=60',
      '200 limit=3 remaining=1 reset=60',
      '200 limit=3 remaining=0 reset=60',
      '429 limit=3 remaining=0 reset=60 retry=60',
      '200 limit=1 remaining=0 reset=60',
      '429 limit=1 remaining=0 reset=60 retry=60',
      '200 limit=2 remaining=1 reset=60',
      '200 limit=2 remaining=0 reset=60',
      '429 limit=2 remaining=0 reset=60 retry=60'
    ]
  },
  'without a keyGenerator the key that max is told is the address, or its network': {
    written: told => ({
      options: {
        ...two,
        max: (_request, key) => {
          told.push(key)
          return 5
        }
      }
    }),
    steps: [from('192.0.2.1'), from('2001:db8:1:2:3::4')],
    show: status,
    answers: ['200', '200'],
    told: ['192.0.2.1', '2001:db8:1:2::']
  },
  'who is on the allowList is not limited, and told nothing': {
    written: () => ({ options: { ...two, allowList: ['192.0.2.1'] }, routes: { '/a': { allowList: [] } } }),
    steps: [
      ...times(3, from('192.0.2.1')),
      ...times(3, from('192.0.2.1', '/a')),
      ...times(3, from('192.0.2.2'))
    ],
    answers: [
      '200',
      '200',
      '200',
      '200 limit=2 remaining=1 reset=60',
      '200 limit=2 remaining=0 reset=60',
      '429 limit=2 remaining=0 reset=60 retry=60',
      '200 limit=2 remaining=1 reset=60',
      '200 limit=2 remaining=0 reset=60',
      '429 limit=2 remaining=0 reset=60 retry=60'
    ]
  },
  'allowList may be a function of the request and its key, now or later': {
    written: () => ({
      options: { max: 1, keyGenerator: user, allowList: (_request, key) => key === 'staff' },
      routes: { '/later': { allowList: async request => user(request) === 'guest' } }
    }),
    steps: [
      ...times(2, as('staff')),
      ...times(2, as('guest')),
      ...times(2, as('guest', '/later')),
      ...times(2, as('staff', '/later'))
    ],
    show: status,
    answers: ['200', '200', '200', '429', '200', '200', '200', '429']
  },
  'allowList holds keys, where there is a keyGenerator': {
    written: () => ({ options: { max: 1, keyGenerator: user, allowList: ['staff', '127.0.0.1'] } }),
    steps: [...times(2, as('staff')), ...times(2, as('guest'))],
    show: status,
    answers: ['200', '200', '200', '429']
  },
  'enableDraftSpec names the fields after the draft': {
    written: () => ({ options: { max: 1, enableDraftSpec: true } }),
    steps: times(2),
    show: ({ statusCode, headers }) =>
      `${statusCode} ${['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'retry-after', 'x-ratelimit-limit'].map(name => String(headers[name])).join(' ')}`,
    answers: ['200 1 0 60 undefined undefined', '429 1 0 60 60 undefined']
  },
  'addHeaders and addHeadersOnExceeding leave fields out': {
    written: () => ({
      options: {
        max: 1,
        addHeaders: { 'x-ratelimit-limit': true, 'x-ratelimit-reset': false, 'retry-after': false },
        addHeadersOnExceeding: { 'x-ratelimit-remaining': false }
      }
    }),
    steps: times(2),
    answers: ['200 limit=1 reset=60', '429 limit=1 remaining=0']
  },
  'onExceeding is told of who is served, onExceeded of who is refused, with their keys': {
    written: told => ({
      options: {
        max: 1,
        keyGenerator: user,
        allowList: ['staff'],
        onExceeding: (_request, key) => void told.push(`served ${key}`),
        onExceeded: (_request, key) => void told.push(`refused ${key}`)
      },
      routes: { '/own': { onExceeded: (request, key) => void told.push(`refused ${key} on ${request.url}`) } }
    }),
    steps: [...times(2, as('1')), as('staff'), ...times(2, as('2', '/own'))],
    show: status,
    answers: ['200', '429', '200', '200', '429'],
    told: ['served 1', 'refused 1', 'served 2', 'refused 2 on /own']
  },
  'the body of a refusal has the members of an error': {
    written: () => ({ options: { max: 0 } }),
    steps: ['/'],
    show: answer => `${String(answer.headers['content-type'])} ${Object.keys(answer.json<object>()).join()}`,
    answers: ['application/json; charset=utf-8 statusCode,error,message']
  },
  'errorResponseBuilder makes the body, and its statusCode the status': {
    written: () => ({
      options: { max: 1, errorResponseBuilder: (request, context) => ({ ...context, url: request.url }) },
      routes: {
        '/error': {
          timeWindow: 90_000,
          errorResponseBuilder: (_request, { after, statusCode }) =>
            Object.assign(new Error(`wait ${after}`), { statusCode, code: 'SLOW' })
        },
        '/503': { errorResponseBuilder: () => ({ statusCode: 503, status: 'busy' }) }
      }
    }),
    steps: ['/', { wait: 18_500 }, '/', ...times(2, '/error'), ...times(2, '/503')],
    show: body,
    answers: [
      '200 text/plain; charset=utf-8 served',
      '429 application/json; charset=utf-8 {"statusCode":429,"ban":false,"max":1,"ttl":41500,"after":"42 seconds","url":"/"}',
      '200 text/plain; charset=utf-8 served',
      '429 application/json; charset=utf-8 {"statusCode":429,"code":"SLOW","error":"Too Many Requests","message":"wait 2 minutes"}',
      '200 text/plain; charset=utf-8 served',
      '503 application/json; charset=utf-8 {"statusCode":503,"status":"busy"}'
    ]
  },
  'hook: preHandler comes after the body was validated, and refuses before the handler': {
    written: told => ({
      options: {
        max: 1,
        hook: 'preHandler',
        keyGenerator: request => (request.body as { id: string }).id
      },
      after: app => {
        app.post('/body', async () => {
          told.push('handled')
          return 'served'
        })
      }
    }),
    steps: ['1', '1', '2'].map(id => ({ method: 'POST' as const, url: '/body', payload: { id } })),
    show: status,
    answers: ['200', '429', '200'],
    told: ['handled', 'handled']
  },
  'the usual hook comes after authentication in onRequest hooks, registered before or after': {
    written: () => ({
      options: { max: 1, keyGenerator: request => String((request as { user?: string }).user) },
      before: app => {
        app.addHook('onRequest', async (request, reply) =>
          request.headers['x-user'] === undefined ? reply.code(401).send('who?') : undefined
        )
      },
      after: app => {
        app.addHook(
          'onRequest',
          async request => void Object.assign(request, { user: request.headers['x-user'] })
        )
      }
    }),
    steps: [...times(2, as('1')), as('2'), ...times(3)],
    show: status,
    answers: ['200', '429', '200', '401', '401', '401']
  },
  'a limit in a child scope is that scope’s': {
    written: () => ({ options: two, routes: { '/own': { max: 1, groupId: 'one' } } }),
    steps: [...times(2, '/own'), '/'],
    show: status,
    answers: ['200', '429', '200']
  }
}

/** Where they differ. Each has its line in the README, with the reason. */
const DIFFERENT: Readonly<Record<string, Row>> = {
  'routes of a group share one counter': {
    written: () => ({
      options: two,
      routes: { '/send': { ...two, groupId: 'otp' }, '/resend': { ...two, groupId: 'otp' } }
    }),
    steps: ['/send', '/resend', '/resend', '/send'],
    show: status,
    answers: { theirs: ['200', '200', '200', '200'], ours: ['200', '200', '429', '429'] }
  },
  'HEAD counts with GET': {
    written: () => ({ options: two, routes: { '/own': { max: 1 } } }),
    steps: ['/own', { method: 'HEAD', url: '/own' }],
    show: status,
    answers: { theirs: ['200', '200'], ours: ['200', '429'] }
  },
  'requests that match no route are limited': {
    written: () => ({ options: two }),
    steps: times(3, '/nowhere'),
    show: status,
    answers: { theirs: ['404', '404', '404'], ours: ['404', '404', '429'] }
  },
  'a route that is declared before the limiter is limited': {
    written: () => ({
      options: two,
      before: app => {
        app.get('/early', async () => 'served')
      }
    }),
    steps: times(3, '/early'),
    show: status,
    answers: { theirs: ['200', '200', '200'], ours: ['200', '200', '429'] }
  },
  'an address of IPv6 on the allowList is not limited': {
    written: () => ({ options: { max: 1, allowList: ['2001:DB8:0:0::5'] } }),
    steps: [...times(2, from('2001:db8::5')), ...times(2, from('2001:db8::6'))],
    show: status,
    answers: { theirs: ['200', '429', '429', '429'], ours: ['200', '200', '200', '429'] }
  },
  'a key that identifies nobody counts by address': {
    written: () => ({
      options: { max: 1, keyGenerator: request => request.headers['x-user'] as string, onExceeded: () => {} }
    }),
    steps: [from('192.0.2.1'), from('192.0.2.2'), from('192.0.2.2')],
    show: status,
    answers: { theirs: ['200', '429', '429'], ours: ['200', '200', '429'] }
  },
  'a key counts by address if finding it fails, and a list that fails lists nobody': {
    written: () => ({
      options: {
        max: 1,
        allowList: (_request, key) => {
          throw new Error(`nobody knows ${key}`)
        }
      },
      routes: {
        '/later': { allowList: async () => Promise.reject(new Error('nobody knows')) },
        '/key': {
          allowList: [],
          keyGenerator: () => {
            throw new Error('no key')
          }
        }
      }
    }),
    steps: [...times(2), ...times(2, '/later'), ...times(2, '/key')],
    show: status,
    answers: {
      theirs: ['500', '500', '500', '500', '500', '500'],
      ours: ['200', '429', '200', '429', '200', '429']
    }
  },
  'a max that is no number admits nobody, and one without end has an end far off': {
    written: () => ({
      options: { ...two, max: () => Number.NaN },
      routes: { '/all': { max: () => Infinity }, '/none': { max: () => -1 } }
    }),
    steps: ['/', '/all', '/none'],
    show: answer => (answer.statusCode === 503 ? status(answer) : lineOf(answer)), // of 503 the wait is spread
    answers: {
      theirs: [
        '200 limit=NaN remaining=NaN reset=60',
        '200 limit=Infinity remaining=Infinity reset=60',
        '429 limit=-1 remaining=0 reset=60 retry=60'
      ],
      ours: ['503', '200 limit=999999999999999 remaining=999999999999998 reset=60', '429 limit=0 remaining=0']
    }
  },
  'a max of 0 tells no wait, for none helps': {
    written: () => ({
      options: { max: 0, errorResponseBuilder: (_request, { ttl }) => ({ statusCode: 429, ttl }) }
    }),
    steps: ['/'],
    show: answer => `${lineOf(answer)} ${answer.payload}`,
    answers: {
      theirs: ['429 limit=0 remaining=0 reset=60 retry=60 {"statusCode":429,"ttl":60000}'],
      ours: ['429 limit=0 remaining=0 {"statusCode":429,"ttl":60000}']
    }
  },
  'a refusal is no error: no error handler sees it': {
    written: told => ({
      options: { max: 1, errorResponseBuilder: () => ({ statusCode: 429 }) },
      after: app => {
        app.setErrorHandler(async (_error, _request, reply) => {
          told.push('handled')
          return reply.code(429).send('handled')
        })
      }
    }),
    steps: times(2),
    show: ({ payload }) => payload,
    answers: { theirs: ['served', 'handled'], ours: ['served', '{"statusCode":429}'] },
    told: { theirs: ['handled'], ours: [] }
  },
  'a builder that forgets the status, or fails, refuses with 429': {
    written: () => ({
      options: { max: 1, errorResponseBuilder: () => ({ slow: 'down' }) },
      routes: {
        '/fails': {
          errorResponseBuilder: () => {
            throw new Error('no words')
          }
        },
        '/text': { errorResponseBuilder: () => 'slow down' as unknown as object }
      }
    }),
    steps: [...times(2), ...times(2, '/fails'), ...times(2, '/text')],
    show: status,
    answers: {
      theirs: ['200', '500', '200', '500', '200', '500'],
      ours: ['200', '429', '200', '429', '200', '429']
    }
  },
  'a function that is told and fails fails no request': {
    written: () => ({
      options: {
        max: 1,
        onExceeding: () => {
          throw new Error('nobody listens')
        },
        onExceeded: () => {
          throw new Error('nobody listens')
        }
      }
    }),
    steps: times(2),
    show: status,
    answers: { theirs: ['500', '500'], ours: ['200', '429'] }
  },
  'nobody is banned': {
    written: told => ({
      options: { max: 1, ban: 1, onBanReach: () => void told.push('banned') }
    }),
    steps: times(3),
    show: status,
    answers: { theirs: ['200', '429', '403'], ours: ['200', '429', '429'] },
    told: { theirs: ['banned'], ours: [] }
  },
  'refused requests do not prolong the wait, whatever continueExceeding says': {
    written: () => ({ options: { max: 1, timeWindow: 10_000, continueExceeding: true } }),
    steps: ['/', { wait: 6000 }, '/', { wait: 4000 }, '/'],
    answers: {
      theirs: [
        '200 limit=1 remaining=0 reset=10',
        '429 limit=1 remaining=0 reset=10 retry=10',
        '429 limit=1 remaining=0 reset=10 retry=10'
      ],
      ours: [
        '200 limit=1 remaining=0 reset=10',
        '429 limit=1 remaining=0 reset=4 retry=4',
        '200 limit=1 remaining=0 reset=10'
      ]
    }
  },
  'the wait does not double, which in memory it did not when it said so': {
    written: () => ({ options: { max: 1, timeWindow: 1000, exponentialBackoff: true } }),
    steps: [...times(4), { wait: 1000 }, '/'],
    answers: {
      theirs: [
        '200 limit=1 remaining=0 reset=1',
        '429 limit=1 remaining=0 reset=1 retry=1',
        '429 limit=1 remaining=0 reset=2 retry=2',
        '429 limit=1 remaining=0 reset=4 retry=4',
        '200 limit=1 remaining=0 reset=1'
      ],
      ours: [
        '200 limit=1 remaining=0 reset=1',
        '429 limit=1 remaining=0 reset=1 retry=1',
        '429 limit=1 remaining=0 reset=1 retry=1',
        '429 limit=1 remaining=0 reset=1 retry=1',
        '200 limit=1 remaining=0 reset=1'
      ]
    }
  },
  'a hook later than onRequest comes where the limiter is registered among its kind': {
    written: () => ({
      options: {
        max: 1,
        hook: 'preHandler',
        keyGenerator: request => (request as { user?: string }).user ?? 'none'
      },
      after: app => {
        app.addHook(
          'preHandler',
          async request => void Object.assign(request, { user: request.headers['x-user'] })
        )
      }
    }),
    steps: [as('1'), as('2')],
    show: status,
    answers: { theirs: ['200', '200'], ours: ['200', '429'] }
  },
  'a flood of clients washes no counter away': {
    written: () => ({ options: { max: 1, cache: 5 } }),
    steps: ['/', ...Array.from({ length: 5 }, (_, i) => from(`192.0.2.${i}`)), '/'],
    show: status,
    answers: {
      theirs: ['200', '200', '200', '200', '200', '200', '200'],
      ours: ['200', '200', '200', '200', '200', '200', '429']
    }
  }
}

const isList = <T>(value: readonly T[] | Readonly<Record<Limiter, readonly T[]>>): value is readonly T[] =>
  Array.isArray(value)

for (const [name, { written, steps, show = lineOf, answers, told = [] }] of Object.entries({
  ...SAME,
  ...DIFFERENT
})) {
  t.test(name, async t => {
    const time = new CommonTime(t)
    for (const limiter of ['theirs', 'ours'] as const) {
      const heard: string[] = []
      const app = await opened(t, limiter, time, written(heard))
      t.strictSame(
        await walk(app, time, steps, show),
        isList(answers) ? answers : answers[limiter],
        `${limiter}: answers`
      )
      t.strictSame(heard, isList(told) ? told : told[limiter], `${limiter}: told`)
    }
  })
}

t.test('what is listed as different differs', async t => {
  for (const [name, { answers }] of Object.entries(DIFFERENT)) {
    t.notOk(isList(answers), name)
    if (!isList(answers)) t.not(answers.theirs.join(), answers.ours.join(), name)
  }
})
