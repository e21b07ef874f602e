export { QuotaOptionError } from '../client/errors.js'
export { audit } from './audit.js'
export { CannotMeasureError } from './errors.js'
export { mostInAnyWindow } from './windows.js'

export type { AuditTarget } from './audit.js'
export type { Attack, Send, Terms } from './attacks.js'
export type { AuditOptions } from './options.js'
export type { AuditPlan, Plan, PlannedAttack } from './plan.js'
export type { Progress } from './progress.js'
export type {
  AnnouncedPolicy,
  AttackResult,
  AuditPromise,
  AuditResult,
  CheckName,
  FieldCheck,
  FieldsReport,
  Limiter,
  Outcome,
  RequestRecord,
  SeenField,
  Span,
  WorstWindow
} from './result.js'
export type { AuditableApp } from './serve.js'
export type { AuditClock, InjectableApp, InjectedResponse } from './virtual-world.js'
export type { Way } from './ways.js'
export type { Between } from './windows.js'
export type { Outgoing } from './world.js'
