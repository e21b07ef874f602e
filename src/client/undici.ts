import { DispatchTrip } from './dispatch-trip.js'
import type { Dispatch, DispatchHandler, DispatchOptions } from './dispatch.js'
import { headersOf } from './dispatch.js'
import { readSettings } from './options.js'
import type { PacedOptions } from './options.js'
import { isReplayable } from './outgoing.js'
import type { OutgoingRequest } from './outgoing.js'
import { Pacer } from './pacer.js'

/** An interceptor for `compose` of an undici dispatcher: it takes a dispatch function and returns another one. */
export type Interceptor = <D extends (options: never, handler: never) => boolean>(dispatch: D) => D

/**
 * The interceptor for dispatchers of undici 7 and later that does for all their requests what {@link paced} does for a
 * `fetch`: `new Agent().compose(pacedInterceptor())`. What `paced` rejects with ends a request as its error.
 *
 * @throws {QuotaOptionError} when an option is not what it has to be.
 */
export function pacedInterceptor(options: PacedOptions = {}): Interceptor {
  const settings = readSettings('pacedInterceptor', options)
  const pacer = new Pacer(settings)
  const interceptor = (dispatch: Dispatch): Dispatch => {
    return (given: DispatchOptions, handler: DispatchHandler) => {
      if (typeof handler.onRequestStart !== 'function') {
        throw new TypeError('pacedInterceptor needs the handlers of undici 7 or later')
      }
      const request = outgoing(given)
      const trip = pacer.trip(request, isReplayable(given.body) ? 'repeatable' : 'once')
      void new DispatchTrip({ trip, request, given, handler, dispatch, keys: settings.keys }).start()
      return true
    }
  }
  return interceptor as unknown as Interceptor
}

/** A client of a single server need not say which: all its requests are to the same one. */
const ONE_SERVER = 'http://client.invalid'

function outgoing({ origin, path, method, headers, body }: DispatchOptions): OutgoingRequest {
  return {
    url: new URL(path, origin ?? ONE_SERVER),
    method: method.toUpperCase(),
    headers: new Headers([...headersOf(headers)]),
    body: body ?? undefined
  }
}
