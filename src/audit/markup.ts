/** Text that is HTML already. */
export class Markup {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Value = Markup | readonly Markup[] | string | number

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;'
}

/** A template of HTML: what is put in is text, unless it is markup. */
export function html(parts: TemplateStringsArray, ...values: readonly Value[]): Markup {
  return new Markup(String.raw({ raw: parts }, ...values.map(textOf)))
}

export const NOTHING: Markup = new Markup('')

function textOf(value: Value): string {
  if (value instanceof Markup) return value.text
  if (typeof value === 'string' || typeof value === 'number') return escaped(String(value))
  return value.map(({ text }) => text).join('\n')
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, character => ESCAPES[character]!)
}
