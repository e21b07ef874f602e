import { Session } from 'node:inspector/promises'
import { timeByPlace } from './places.js'
import type { Numbers } from './worker.js'

/** Microseconds between two looks at what this process does. */
const EVERY = 200

/** Tells where the time of this process goes. */
export class Profiler {
  readonly #session = new Session()

  async begin(): Promise<Numbers> {
    this.#session.connect()
    await this.#session.post('Profiler.enable')
    await this.#session.post('Profiler.setSamplingInterval', { interval: EVERY })
    await this.#session.post('Profiler.start')
    return {}
  }

  /** Microseconds since it began, by place. */
  async end(): Promise<Numbers> {
    const { profile } = await this.#session.post('Profiler.stop')
    this.#session.disconnect()
    return timeByPlace(profile)
  }
}
