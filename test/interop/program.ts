import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { demandServed } from './client.js'

/**
 * A client in another language: a program that reads addresses from its input, one a line, calls each of them when it
 * has read it, and prints the address and the status of the last response. It ends with its input.
 */
export class Program {
  readonly #child: ChildProcess
  readonly #calls = new Map<string, (status: number) => void>()

  constructor(command: string, ...args: readonly string[]) {
    this.#child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    createInterface({ input: this.#child.stdout! }).on('line', line => {
      const [url = '', status] = line.split(' ')
      this.#calls.get(url)?.(Number(status))
    })
    // It is no reason to stay: who calls waits for a server, too.
    this.#child.unref()
    for (const pipe of [this.#child.stdin, this.#child.stdout]) (pipe as Socket).unref()
  }

  async call(url: string, signal: AbortSignal): Promise<void> {
    const status = await new Promise<number>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error))
      this.#calls.set(url, resolve)
      this.#child.stdin!.write(`${url}\n`)
    })
    demandServed(status)
  }
}
