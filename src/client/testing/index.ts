export { mockServer } from './mock-server.js'

export type { MockRequest, MockServer } from './mock-server.js'
export type { Answer, AnswerName } from './script.js'
