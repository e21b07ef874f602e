import { Kind, parse } from 'graphql'
import type { DocumentNode, FieldNode, SelectionSetNode } from 'graphql'

/** An operation as clients send it. */
export interface Operation {
  readonly query?: unknown
  /** In a URL they are JSON. */
  readonly variables?: unknown
}

type Variables = Readonly<Record<string, unknown>>

/** More than any quota has; products of page sizes stop here. */
const MOST = 1_000_000_000

/**
 * The points that an operation costs: one for each field that it may resolve, and fields below one that takes `first` count
 * so many times. Nothing was validated yet: what is no query costs one point, and gets its error from GraphQL.
 */
export function pointsOf({ query, variables }: Operation): number {
  const document = parsed(query)
  if (document === undefined) return 1
  const counting = new Counting(document, { ...defaultsOf(document), ...given(variables) })
  // Which one of several will run is up to the client: the most expensive is charged.
  const points = document.definitions.map(definition =>
    definition.kind === Kind.OPERATION_DEFINITION ? counting.of(definition.selectionSet) : 0
  )
  return Math.max(1, ...points)
}

function parsed(query: unknown): DocumentNode | undefined {
  try {
    return parse(String(query))
  } catch {
    return undefined
  }
}

function given(variables: unknown): Variables {
  if (typeof variables !== 'string') return (variables ?? {}) as Variables
  try {
    return JSON.parse(variables) as Variables
  } catch {
    return {}
  }
}

/** What variables are where the client does not give them; of several operations, the largest. */
function defaultsOf({ definitions }: DocumentNode): Variables {
  const defaults: Record<string, number> = {}
  for (const definition of definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION) continue
    const { variableDefinitions = [] } = definition
    for (const { variable, defaultValue } of variableDefinitions) {
      if (defaultValue?.kind !== Kind.INT) continue
      defaults[variable.name.value] = Math.max(defaults[variable.name.value] ?? 0, Number(defaultValue.value))
    }
  }
  return defaults
}

class Counting {
  readonly #document: DocumentNode
  readonly #variables: Variables
  /** Points of fragments by name. Each is counted once, however often it is spread: they can double at every level. */
  readonly #fragments = new Map<string, number>()

  constructor(document: DocumentNode, variables: Variables) {
    this.#document = document
    this.#variables = variables
  }

  of(set: SelectionSetNode | undefined): number {
    let points = 0
    for (const selection of set?.selections ?? []) {
      if (selection.kind === Kind.FIELD)
        points += 1 + this.#times(selection) * this.of(selection.selectionSet)
      else if (selection.kind === Kind.INLINE_FRAGMENT) points += this.of(selection.selectionSet)
      else points += this.#ofFragment(selection.name.value)
    }
    return Math.min(points, MOST)
  }

  #ofFragment(name: string): number {
    const known = this.#fragments.get(name)
    if (known !== undefined) return known
    // One that spreads itself is refused by GraphQL, and one that is not there too.
    this.#fragments.set(name, 0)
    for (const definition of this.#document.definitions) {
      if (definition.kind !== Kind.FRAGMENT_DEFINITION || definition.name.value !== name) continue
      this.#fragments.set(name, this.of(definition.selectionSet))
    }
    return this.#fragments.get(name)!
  }

  /** How many items a field has at most: its argument `first`. */
  #times({ arguments: all = [] }: FieldNode): number {
    const value = all.find(({ name }) => name.value === 'first')?.value
    if (value?.kind === Kind.INT) return clamped(value.value)
    if (value?.kind === Kind.VARIABLE) return clamped(this.#variables[value.name.value])
    return 1
  }
}

/** From 0 to the most; 0 for what is no number, which GraphQL refuses. */
const clamped = (first: unknown): number => Math.min(Math.max(0, Math.floor(Number(first)) || 0), MOST)
