export { quotaMetrics } from './plugin.js'
export type { QuotaMetricsOptions } from './plugin.js'
