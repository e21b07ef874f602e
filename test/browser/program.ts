import { whereIs } from '../installing.js'

/** The browser as Debian calls it, and what others make of it. */
const PROGRAMS = ['chromium', 'google-chrome'] as const

/** The program that tests start, if this machine has one. */
export const findChromium = (): string | undefined => PROGRAMS.map(whereIs).find(file => file !== undefined)

/** Why tests do without a browser; `false`: they do not, as where CI is set, for there nothing may go untested. */
export const excuse = (found: string | undefined, ci: string | undefined): string | false =>
  found === undefined && !ci ? 'there is no Chromium on the PATH' : false

/** For the option `skip` of tests in a browser. */
export const noChromium: string | false = excuse(findChromium(), process.env['CI'])
