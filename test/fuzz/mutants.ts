/** A fault put into the compiled source: the fuzz file of its surface has to find it. */
export interface Mutant {
  readonly fault: string
  /** Below `dist/src`. */
  readonly file: string
  readonly text: string
  readonly replacement: string
  /** The name of a file here. */
  readonly found: 'addresses' | 'keys' | 'requests' | 'options' | 'clock' | 'redis' | 'client'
}

export const MUTANTS: readonly Mutant[] = [
  {
    fault: 'IPv4 addresses within IPv6 ones are networks',
    file: 'address.js',
    text: 'if (address.match(MAPPED, 96) || address.match(NAT64, 96))',
    replacement: 'if (address.match(MAPPED, 96))',
    found: 'addresses'
  },
  {
    fault: 'the mask of a prefix is one bit too long',
    file: 'address.js',
    text: 'Math.max(0, 16 - bits)',
    replacement: 'Math.max(0, 15 - bits)',
    found: 'addresses'
  },
  {
    fault: 'an address in a text with more in it is one',
    file: 'address.js',
    text: '(?::\\d{1,5})?)$/',
    replacement: '(?::\\d{1,5})?)/',
    found: 'addresses'
  },
  {
    fault: 'the address that a client claims is believed',
    file: 'visit.js',
    text: 'this.#by.addressing(this.#request.ip,',
    replacement:
      "this.#by.addressing(String(this.#request.headers['x-forwarded-for'] ?? this.#request.ip).split(',')[0],",
    found: 'addresses'
  },
  {
    fault: 'tuples have no lengths',
    file: 'partition.js',
    text: "tuple.push(String(part.length), ':', part);",
    replacement: "tuple.push(':', part);",
    found: 'keys'
  },
  {
    fault: 'keys are digests of UTF-8, which has no lone surrogates',
    file: 'stores/redis/keys.js',
    text: ".update(partition, 'utf16le')",
    replacement: ".update(partition, 'utf8')",
    found: 'keys'
  },
  {
    fault: 'an identity that is no name fails the request',
    file: 'partition.js',
    text: "typeof value === 'number' && Number.isFinite(value)",
    replacement: "typeof value === 'number'",
    found: 'keys'
  },
  {
    fault: 'a wait of nothing is announced',
    file: 'fields.js',
    text: 'Math.max(1, Math.ceil(ms / 1000))',
    replacement: 'Math.floor(ms / 1000)',
    found: 'requests'
  },
  {
    fault: 'a label is sent as it came',
    file: 'fields.js',
    text: 'return parameter(PARAMETER.partitionKey, key);',
    replacement: "return ';pk=\"' + Buffer.from(key).toString() + '\"';",
    found: 'requests'
  },
  {
    fault: 'a refusal may be kept by caches',
    file: 'response.js',
    text: "'no-store').header('content-type'",
    replacement: "'max-age=60').header('content-type'",
    found: 'requests'
  },
  {
    fault: 'unknown options pass in silence',
    file: 'options.js',
    text: 'if (known.includes(key))',
    replacement: 'if (known.includes(key) || key.length > 6)',
    found: 'options'
  },
  {
    fault: 'a hole in a list of policies is skipped',
    file: 'route-quota.js',
    text: 'return Array.from(written, reference => readReference(refuse, option, reference));',
    replacement: 'return written.map(reference => readReference(refuse, option, reference));',
    found: 'options'
  },
  {
    fault: 'a duration may end in anything',
    file: 'options.js',
    text: '(ms|s|m|h|d)$/',
    replacement: '(ms|s|m|h|d)/',
    found: 'options'
  },
  {
    fault: 'what a function of the operator throws fails the request',
    file: 'partition-key.js',
    text: "faults.report(request.log, 'partitionKey', error, 'no pk is sent');",
    replacement: 'throw error;',
    found: 'options'
  },
  {
    fault: 'a start later than now is forgotten',
    file: 'algorithms/fixed-window.js',
    text: 'return start + window <= now ? EMPTY : [count, Math.min(start, now)];',
    replacement: 'return start + window <= now || start > now ? EMPTY : [count, start];',
    found: 'clock'
  },
  {
    fault: 'a start later than now stays',
    file: 'algorithms/fixed-window.js',
    text: '[count, Math.min(start, now)];',
    replacement: '[count, start];',
    found: 'clock'
  },
  {
    fault: 'what time alone has changed is not kept',
    file: 'stores/memory.js',
    text: 'if (step.state !== state || !step.allowed)',
    replacement: 'if (!step.allowed)',
    found: 'clock'
  },
  {
    fault: 'any numbers are taken for a reply',
    file: 'stores/redis/command.js',
    text: 'return whole ? { now, fenced, numbers } : undefined;',
    replacement: 'return { now, fenced, numbers };',
    found: 'redis'
  },
  {
    fault: 'a reply may have any number of numbers',
    file: 'stores/redis/command.js',
    text: 'bytes.length !== (fenced ? 2 : 2 + expected) * BYTES',
    replacement: 'bytes.length % BYTES > 0',
    found: 'redis'
  },
  {
    fault: 'nobody ends a wait for Redis',
    file: 'stores/redis/calls.js',
    text: "const off = attempt.whenOver(() => this.#fail(call, new StoreFailure('TIMEOUT')));",
    replacement: 'const off = () => {};',
    found: 'redis'
  },
  {
    fault: 'a wait that no date can hold is an error',
    file: 'client/waits.js',
    text: 'new Date(Math.min(time, LAST_DATE))',
    replacement: 'new Date(time)',
    found: 'client'
  },
  {
    fault: 'all bytes of a partition key are arguments of one call',
    file: 'client/reading.js',
    text: "Array.from(partitionKey, byte => String.fromCharCode(byte)).join('')",
    replacement: 'String.fromCharCode(...partitionKey)',
    found: 'client'
  },
  {
    fault: 'a server may tell of as many policies as it likes',
    file: 'client/reading.js',
    text: 'const MOST_TOLD = 100;',
    replacement: 'const MOST_TOLD = 1e9;',
    found: 'client'
  },
  {
    fault: 'a wait may be longer than maxWait',
    file: 'client/lane.js',
    text: 'if (turn.at - now > this.#bounds.maxWait)',
    replacement: 'if (turn.at - now > 10 * this.#bounds.maxWait)',
    found: 'client'
  }
]
