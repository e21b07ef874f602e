import type { Profiler } from 'node:inspector'
import t from 'tap'
import { timeByPlace } from './places.js'

const node = (id: number, functionName: string, url: string): Profiler.Profile['nodes'][number] => ({
  id,
  callFrame: { functionName, url, scriptId: '', lineNumber: 0, columnNumber: 0 }
})

const nodes = [
  node(1, '(root)', ''),
  node(2, '(idle)', ''),
  node(3, '(program)', ''),
  node(4, '(garbage collector)', ''),
  node(5, 'consume', 'file:///some/where/dist/src/stores/memory.js'),
  node(6, 'read', 'file:///some/where/dist/src/stores/memory/cells.js'),
  node(7, 'write', 'file:///some/where/dist/src/stores/memory/cells.js'),
  node(8, 'count', 'file:///some/where/dist/test/bench/floor.js'),
  node(9, 'send', 'file:///some/node_modules/fastify/lib/reply.js'),
  node(10, 'hook', '/some/node_modules/other/node_modules/@fastify/rate-limit/index.js'),
  node(11, 'nextTick', 'node:internal/process/task_queues'),
  node(12, 'getTime', '')
]

t.test('time is told by the file, the package or the kind of what took it', async t => {
  const samples = [5, 6, 7, 8, 9, 10, 11, 12, 3, 4]
  const timeDeltas = samples.map((_, i) => 2 ** i)
  t.strictSame(timeByPlace({ nodes, samples, timeDeltas, startTime: 0, endTime: 1 }), {
    'ours: stores/memory': 1,
    'ours: stores/memory/cells': 2 + 4,
    'the bench': 8,
    fastify: 16,
    '@fastify/rate-limit': 32,
    'Node.js': 64 + 128,
    'outside of JavaScript': 256,
    'garbage collection': 512
  })
})

t.test('while there is nothing to do, no time is spent', async t => {
  t.strictSame(
    timeByPlace({ nodes, samples: [2, 5, 2], timeDeltas: [10, 1, 10], startTime: 0, endTime: 1 }),
    {
      'ours: stores/memory': 1
    }
  )
  t.strictSame(timeByPlace({ nodes, startTime: 0, endTime: 1 }), {}, 'nobody has looked')
})
