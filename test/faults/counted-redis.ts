import { Redis } from 'ioredis'

/** A client that counts the connections that its copies make. */
export class CountedRedis extends Redis {
  connections = 0

  override duplicate(...options: Parameters<Redis['duplicate']>): Redis {
    return super.duplicate(...options).on('connect', () => this.connections++)
  }
}
