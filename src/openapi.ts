import type { FastifySchema, RouteOptions } from 'fastify'
import { FST_QUOTA_OPTION } from './errors.js'
import { asFunction, refuser } from './options.js'
import { advertised } from './plan.js'
import type { Plan } from './plan.js'
import type { QuotaPolicy } from './policy.js'
import { PROBLEM_MEDIA_TYPE } from './problem.js'

/** A route as `@fastify/swagger` hands it to a transform, beside the document it makes. */
export interface SwaggerRoute {
  readonly schema: FastifySchema
  readonly url: string
  readonly route: RouteOptions
}

/**
 * The option `transform` of `@fastify/swagger`: what the document says about a route, and nothing the route does. One that
 * wants more of the document than others, as those of schema libraries do, is a transform of that.
 */
export type OpenApiTransform<Route extends SwaggerRoute = SwaggerRoute> = (route: Route) => {
  schema: FastifySchema
  url: string
}

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
 * @throws FST_QUOTA_OPTION for an `inner` that is no function.
 */
export function createTransform<Route extends SwaggerRoute = SwaggerRoute>(
  documented: Documented,
  inner: OpenApiTransform<Route> = route => route
): OpenApiTransform<Route> {
  asFunction(refuser(FST_QUOTA_OPTION, 'app.quota'), 'transform of openapi', inner)
  return input => {
    const { schema, url } = inner(input)
    const plan = documented.planOf(input.route)
    if (plan === undefined || plan.policies.every(({ shadow }) => shadow)) return { schema, url }
    const told = advertised(plan.policies)
    const fields = documented.fields && told.length > 0 ? FIELDS : {}
    const body = bodyIn('swaggerObject' in input ? 'swagger' : 'openapi', BODIES[documented.body])
    return {
      schema: {
        ...schema,
        response: responses(responsesOf(schema), fields, body),
        'x-ratelimit-policies': told.map(described)
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
function responses(own: Responses | undefined, fields: Headers, body: object): Responses {
  const served = own ?? { '200': { type: 'null', description: 'Default Response' } }
  const told = Object.entries(served).map(([status, response]) => {
    if (status in REFUSALS) return [status, withHeaders(response, { ...fields, ...RETRY_AFTER })]
    return [status, isRedirect(status) ? response : withHeaders(response, fields)]
  })
  const refusals = Object.entries(REFUSALS).map(([status, description]) => [
    status,
    { ...body, description, headers: { ...fields, ...RETRY_AFTER } }
  ])
  return { ...Object.fromEntries(refusals), ...Object.fromEntries(told) } as Responses
}

/** A status, or a range such as `3xx`, whose responses carry no fields. */
const isRedirect = (status: string): boolean => status.startsWith('3') && status !== '304'

/** A response of a schema library is left as it is. A header is the same one in capitals. */
function withHeaders(response: unknown, headers: Headers): unknown {
  if (typeof response !== 'object' || response === null) return response
  const prototype = Object.getPrototypeOf(response) as object | null
  if (prototype !== Object.prototype && prototype !== null) return response
  const { headers: own = {} } = response as { readonly headers?: object }
  const names = Object.keys(own).map(name => name.toLowerCase())
  const ours = Object.entries(headers).filter(([name]) => !names.includes(name.toLowerCase()))
  return { ...response, headers: { ...Object.fromEntries(ours), ...own } }
}

function responsesOf({ response }: FastifySchema = {}): Responses | undefined {
  return response as Responses | undefined
}

/** A policy with the numbers that `RateLimit-Policy` has. */
function described({ name, quotaOf, capacity, announcedWindow, unit, rule }: QuotaPolicy): object {
  return {
    name,
    quota: quotaOf === undefined ? capacity : 'by request',
    ...(announcedWindow === 0 ? {} : { window: announcedWindow }),
    unit,
    partition: rule.label
  }
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

interface Body {
  readonly mediaType: string
  readonly schema: object
}

const BODIES: Readonly<Record<Documented['body'], Body>> = {
  draft: { mediaType: PROBLEM_TYPE, schema: PROBLEM },
  own: { mediaType: PROBLEM_TYPE, schema: OWN },
  fastify: { mediaType: 'application/json', schema: ERROR }
}

/** Swagger 2.0 has no media type for the body of one response. */
function bodyIn(language: 'swagger' | 'openapi', { mediaType, schema }: Body): object {
  return language === 'swagger' ? schema : { content: { [mediaType]: { schema } } }
}
