/** An audit cannot say whether the promise is kept: nothing to hold it against, nobody to ask, or too little seen. */
export class CannotMeasureError extends Error {
  override readonly name = 'CannotMeasureError'
  readonly code = 'CANNOT_MEASURE'
}
