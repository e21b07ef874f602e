import type { FastifySchema, RouteOptions } from 'fastify'
import { PROBLEM_MEDIA_TYPE } from './problem.js'
import type { Plan } from './plan.js'
import type { QuotaPolicy } from './policy.js'
import { report } from './routes.js'

/** The option `transform` of `@fastify/swagger`: what the document says about a route, and nothing the route does. */
export type OpenApiTransform = (input: {
  readonly schema: FastifySchema
  readonly url: string
  readonly route: RouteOptions
}) => { schema: FastifySchema; url: string }

/** What a server sends, as far as a document tells it. */
export interface Documented {
  /** The plan of a route; `undefined`: it has no quota. */
  readonly planOf: (route: RouteOptions) => Plan | undefined
  /** Whether the draft's fields are sent. */
  readonly fields: boolean
  /** Whose form the body of a refusal has: the draft's, the operator's or Fastify's. */
  readonly body: 'draft' | 'own' | 'fastify'
}

/**
 * Makes a transform that adds to each route with quota its refusals, the fields of all its responses, and its policies as
 * `x-ratelimit-policies`. `inner` is the application's own transform, which comes first.
 */
export function createTransform(
  documented: Documented,
  inner: OpenApiTransform = input => input
): OpenApiTransform {
  return input => {
    const { schema, url } = inner(input)
    const plan = documented.planOf(input.route)
    const policies = plan?.policies.filter(({ shadow }) => !shadow) ?? []
    if (plan === undefined || policies.length === 0) return { schema, url }
    const fields = documented.fields && policies.some(({ advertise }) => advertise) ? FIELDS : {}
    return {
      schema: {
        ...schema,
        response: responses(responsesOf(schema), fields, documented.body),
        'x-ratelimit-policies': described(plan, policies)
      },
      url
    }
  }
}

type Headers = Readonly<Record<string, { readonly type: string; readonly description: string }>>
type Responses = Readonly<Record<string, unknown>>

const FIELDS: Headers = {
  'RateLimit-Policy': {
    type: 'string',
    description:
      'The quota policies of this route: a List of Strings, each with the quota `q` and, where they apply, the quota unit ' +
      '`qu` and the window `w` in seconds (draft-ietf-httpapi-ratelimit-headers-11).'
  },
  RateLimit: {
    type: 'string',
    description:
      'What is left: a List of Strings, each the name of a policy with the available quota `r` and the effective window ' +
      '`t`, the seconds in which no more than `r` may be spent. A positive `r` is no promise that a request will be served.'
  }
}

const RETRY_AFTER: Headers = {
  'Retry-After': {
    type: 'integer',
    description:
      'Seconds to wait before the request is sent again. Left out where no wait helps or none is known.'
  }
}

const REFUSALS = {
  '429': 'Quota exceeded: the request would spend more than is left.',
  '503': 'Temporary reduced capacity: the service cannot take the request now.'
} as const

/** The responses of a route with the fields on those that carry them, and with the refusals it does not tell itself. */
function responses(own: Responses | undefined, fields: Headers, body: Documented['body']): Responses {
  const served = own ?? { '200': { type: 'null', description: 'Default Response' } }
  const told = Object.entries(served).map(([status, response]) => {
    if (status in REFUSALS) return [status, withHeaders(response, { ...fields, ...RETRY_AFTER })]
    return [status, status.startsWith('3') ? response : withHeaders(response, fields)]
  })
  const refusals = Object.entries(REFUSALS).map(([status, description]) => [
    status,
    { description, headers: { ...fields, ...RETRY_AFTER }, content: CONTENT[body] }
  ])
  return { ...Object.fromEntries(refusals), ...Object.fromEntries(told) } as Responses
}

/** A response of a schema library is left as it is. */
function withHeaders(response: unknown, headers: Headers): unknown {
  if (typeof response !== 'object' || response === null) return response
  const prototype = Object.getPrototypeOf(response) as object | null
  if (prototype !== Object.prototype && prototype !== null) return response
  const own = (response as { readonly headers?: object }).headers
  return { ...response, headers: { ...headers, ...own } }
}

function responsesOf({ response }: FastifySchema = {}): Responses | undefined {
  return response as Responses | undefined
}

/** What clients may know of the policies: those that are told in the fields. */
function described(plan: Plan, policies: readonly QuotaPolicy[]): readonly object[] {
  const names = new Set(policies.filter(({ advertise }) => advertise).map(({ name }) => name))
  return report('', plan)
    .policies.filter(({ name }) => names.has(name))
    .map(({ name, quota, window, unit, partition }) => ({
      name,
      quota,
      ...(window === undefined ? {} : { window: window / 1000 }),
      unit,
      partition
    }))
}

const PROBLEM = {
  type: 'object',
  required: ['type', 'title', 'status'],
  properties: {
    type: { type: 'string', description: 'Identifies the kind of problem; nothing is to be found there.' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    'violated-policies': {
      type: 'array',
      items: { type: 'string' },
      description: 'Names of the quota policies that refused.'
    }
  }
} as const

const OWN = { type: 'object', additionalProperties: true } as const

const ERROR = {
  type: 'object',
  required: ['statusCode', 'error', 'message'],
  properties: { statusCode: { type: 'integer' }, error: { type: 'string' }, message: { type: 'string' } }
} as const

const [PROBLEM_TYPE] = PROBLEM_MEDIA_TYPE.split(';') as [string]

const CONTENT = {
  draft: { [PROBLEM_TYPE]: { schema: PROBLEM } },
  own: { [PROBLEM_TYPE]: { schema: OWN } },
  fastify: { 'application/json': { schema: ERROR } }
} as const
