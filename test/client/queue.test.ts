import t from 'tap'
import { Account } from '../../src/client/account.js'
import { Queue } from '../../src/client/queue.js'
import type { Outcome } from '../../src/client/queue.js'
import { Ticket } from '../../src/client/ticket.js'
import { exact, spend } from './limits/kit.js'

const account = new Account(undefined, { ...spend, ...exact })

/** A queue of tickets that are named by their route, and whatever else is different about them. */
class Names {
  readonly queue = new Queue()
  readonly tickets = new Map<string, Ticket>()

  add(name: string, priority = 0, comesAgain = false): this {
    const route = name[0]!
    const ticket = new Ticket({ route, costs: {} }, priority, () => {})
    ticket.arrived(this.tickets.size)
    if (comesAgain) ticket.refused(account, [])
    this.tickets.set(name, ticket)
    this.queue.add({ ticket, resolve: () => {}, reject: () => {} })
    return this
  }

  nameOf(ticket: Ticket): string {
    return [...this.tickets].find(([, other]) => other === ticket)![0]
  }

  /** The names of those that are looked at, and which of them leave. */
  look(leaves: (name: string) => boolean): string {
    const seen: string[] = []
    this.queue.look(({ ticket }): Outcome => {
      seen.push(this.nameOf(ticket))
      return leaves(seen.at(-1)!) ? 'leaves' : 'waits'
    })
    return seen.join(' ')
  }
}

t.test('of those alike only the first is looked at while it waits', async t => {
  const names = new Names().add('a1').add('b1').add('a2').add('c1').add('b2')
  t.equal(
    names.look(() => false),
    'a1 b1 c1'
  )
  t.equal(names.queue.size, 5)
})

t.test('those that leave make room for the next of their kind, in the order of all', async t => {
  const names = new Names().add('a1').add('b1').add('a2').add('c1').add('b2')
  t.equal(
    names.look(name => name !== 'b1'),
    'a1 b1 a2 c1'
  )
  t.equal(
    names.look(() => true),
    'b1 b2'
  )
  t.equal(names.queue.size, 0)
})

t.test('a higher priority goes first, and one that comes again has its old place', async t => {
  const names = new Names().add('a1').add('a2', 0, true).add('a3', 7).add('a4')
  t.equal(
    names.look(() => true),
    'a3 a1 a2 a4'
  )
})

t.test('a ticket can be taken out, once', async t => {
  const names = new Names().add('a1').add('a2')
  const ticket = names.tickets.get('a1')!
  t.equal(names.queue.remove(ticket)?.ticket, ticket)
  t.equal(names.queue.remove(ticket), undefined)
  t.equal(names.queue.remove(names.tickets.get('a2')!)?.ticket, names.tickets.get('a2'))
  t.equal(names.queue.remove(ticket), undefined)
  t.equal(names.queue.size, 0)
})

t.test('the latest are newcomers', async t => {
  const names = new Names().add('a1').add('b1').add('a2', 0, true).add('c1')
  t.strictSame(
    names.queue.latest(2).map(({ ticket }) => names.nameOf(ticket)),
    ['c1', 'b1']
  )
})
