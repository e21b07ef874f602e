import { createRequire } from 'node:module'
import t from 'tap'
import { StoreFailure, diagnose, withoutEffect } from '../../../src/stores/guard/failure.js'

t.test('a failure is an outage that may be over at once, unless it says otherwise', async t => {
  t.match(new StoreFailure('TIMEOUT'), { code: 'TIMEOUT', kind: 'outage', retryAfter: 0 })
  t.match(new StoreFailure('DOWN', 'outage', 250), { code: 'DOWN', kind: 'outage', retryAfter: 250 })
  t.notOk(new StoreFailure('TIMEOUT') instanceof Error)
})

t.test('nobody knows what a call has done that failed, but of one that was never made', async t => {
  t.equal(new StoreFailure('TIMEOUT').effect, 'unknown')
  t.match(withoutEffect('SHED'), { code: 'SHED', kind: 'outage', retryAfter: 0, effect: 'none' })
  t.match(withoutEffect('DOWN', 250), { retryAfter: 250, effect: 'none' })
})

t.test('the words of Redis for a state that passes are outages', async t => {
  for (const [code, message] of [
    ['READONLY', "READONLY You can't write against a read only replica. script: b7c6, on @user_script:1."],
    ['READONLY', "ERR Error running script (call to f_b7c6): @user_script:1: READONLY You can't write"],
    ['OOM', "OOM command not allowed when used memory > 'maxmemory'. script: b7c6, on @user_script:1."],
    ['LOADING', 'LOADING Redis is loading the dataset in memory'],
    ['BUSY', 'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.'],
    ['CLUSTERDOWN', 'CLUSTERDOWN The cluster is down'],
    ['TRYAGAIN', 'TRYAGAIN Multiple keys request during rehashing of slot'],
    ['MASTERDOWN', "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."],
    ['NOREPLICAS', 'NOREPLICAS Not enough good replicas to write.'],
    ['MISCONF', 'MISCONF Redis is configured to save RDB snapshots'],
    ['UNBLOCKED', 'UNBLOCKED force unblock from blocking operation'],
    ['MOVED', 'MOVED 3999 127.0.0.1:6381'],
    ['ASK', 'ASK 3999 127.0.0.1:6381'],
    ['CLUSTERDOWN', 'Too many Cluster redirections. Last error: ReplyError: CLUSTERDOWN The cluster is down']
  ] as const) {
    t.match(diagnose(new Error(message)), { code, kind: 'outage', retryAfter: 0, effect: 'none' }, message)
  }
})

t.test('what the system and the client say of a connection is an outage', async t => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:6379'), { code: 'ECONNREFUSED' })
  t.match(diagnose(refused), { code: 'ECONNREFUSED', kind: 'outage', effect: 'unknown' })
  for (const message of [
    'Connection is closed.',
    "Stream isn't writeable and enableOfflineQueue options is false",
    'Reached the max retries per request limit (which is 0). Refer to "maxRetriesPerRequest" option for details.',
    "Cluster isn't ready and enableOfflineQueue options is false",
    'Too many Cluster redirections. Last error: Error: Connection is closed.',
    'Failed to refresh slots cache.',
    'None of startup nodes is available',
    'All sentinels are unreachable. Retrying from scratch after 10ms. Last error: connect ECONNREFUSED 127.0.0.1:26379',
    "Socket timeout. Expecting data, but didn't receive any in 1000ms.",
    'Command timed out'
  ]) {
    t.match(diagnose(new Error(message)), { code: 'CONNECTION', kind: 'outage', effect: 'unknown' }, message)
  }
})

t.test('everything else is a fault, with the first word of Redis as code', async t => {
  for (const [code, message] of [
    ['NOPERM', "NOPERM User default has no permissions to run the 'evalsha' command"],
    [
      'NOPERM',
      "ERR The user executing the script can't run this command or subcommand script: b7c6, on @user_script:1."
    ],
    ['NOAUTH', 'NOAUTH Authentication required.'],
    ['WRONGPASS', 'WRONGPASS invalid username-password pair or user is disabled.'],
    ['WRONGTYPE', 'WRONGTYPE Operation against a key holding the wrong kind of value'],
    ['CROSSSLOT', "CROSSSLOT Keys in request don't hash to the same slot"],
    ['BUSYGROUP', 'BUSYGROUP Consumer Group name already exists'],
    ['ERR', "ERR unknown command 'EVALSHA'"],
    ['UNEXPECTED', 'commands[name] is not a function'],
    ['UNEXPECTED', 'A task failed']
  ] as const) {
    t.match(diagnose(new Error(message)), { code, kind: 'fault', retryAfter: 0 }, message)
  }
})

t.test('whatever is thrown is diagnosed', async t => {
  for (const thrown of [undefined, null, '', 'down', 0, {}, [], Symbol('down'), new Error(), { code: 7 }]) {
    t.match(diagnose(thrown), { code: 'UNEXPECTED', kind: 'fault' })
  }
  t.match(diagnose({ message: 'OOM command not allowed' }), { code: 'OOM', kind: 'outage' })
})

t.test('what the clients of today throw of themselves is known', async t => {
  const { MaxRetriesPerRequestError } = createRequire(import.meta.resolve('ioredis'))(
    './errors/index.js'
  ) as { readonly MaxRetriesPerRequestError: new (limit: number) => Error }
  t.match(diagnose(new MaxRetriesPerRequestError(0)), { code: 'CONNECTION', kind: 'outage' })
})

t.test('a command and its keys never show in a failure', async t => {
  const error = Object.assign(new Error('WRONGTYPE Operation against a key'), {
    command: { name: 'evalsha', args: ['b7c6', '1', 'q1:{secret}'] }
  })
  t.notMatch(JSON.stringify(diagnose(error)), /secret/)
})
