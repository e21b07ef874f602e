import t from 'tap'
import { watchWarnings } from '../plugin/kit.js'
import { CommonTime, opened } from './kit.js'

t.test('what is not carried over is listed as the app starts, a warning each, with its places', async t => {
  const { heard } = watchWarnings(t)
  const app = await opened(t, 'ours', new CommonTime(t), {
    options: {
      ban: 0,
      onBanReach: () => {},
      continueExceeding: true,
      exponentialBackoff: true,
      cache: 10_000,
      groupId: 'all',
      hook: 'preHandler',
      keyGenerator: () => 'one'
    },
    routes: Object.fromEntries(['/a', '/b', '/c', '/d'].map(url => [url, { ban: 3, groupId: url.slice(1) }]))
  })
  t.strictSame(await heard(), [], 'not before all routes are known')
  await app.ready()
  const warnings = await heard()
  t.strictSame([...new Set(warnings.map(({ code }) => code))], ['FST_QUOTA_NOT_CARRIED'])
  t.strictSame(
    warnings.map(
      ({ message }) => /^fromFastifyRateLimit: (.*\)) is not carried over as it is: ./.exec(message)?.[1]
    ),
    [
      'ban (of the plugin, GET /a, GET /b, …)',
      'onBanReach (of the plugin)',
      'continueExceeding (of the plugin)',
      'exponentialBackoff (of the plugin)',
      'cache (of the plugin)',
      'hook (of the plugin)',
      'groupId (of the plugin)'
    ]
  )
})

t.test('what changes nothing is not listed', async t => {
  const { heard } = watchWarnings(t)
  const app = await opened(t, 'ours', new CommonTime(t), {
    options: { ban: -1, continueExceeding: false, exponentialBackoff: false, keyGenerator: () => 'one' },
    routes: { '/': { hook: 'preHandler' } }
  })
  await app.ready()
  t.strictSame(await heard(), [])
})
