import { adviceOf } from './advice.js'
import { chart } from './chart.js'
import { Markup, NOTHING, html } from './markup.js'
import type { AttackResult, AuditResult, FieldCheck } from './result.js'
import { STYLE } from './style.js'
import { excessOf, promiseOf, proofOf, roughly, secondsOf, spreadOf, verdictOf, windowOf } from './words.js'

/** A result as a page of its own, which needs nothing from anywhere. */
export function asHtml(result: AuditResult): string {
  const { target, promiseKept, worst } = result
  const attack = result.attacks.find(({ name }) => name === worst.name)
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${promiseKept ? 'Kept' : 'Broken'}: ${target}</title>
        <style>
          ${new Markup(STYLE)}
        </style>
      </head>
      <body>
        <main>
          ${header(result)} ${attack === undefined ? NOTHING : worstWindow(attack, result)} ${advice(result)}
          ${attacks(result)} ${fields(result)} ${others(result)} ${notes(result)}
        </main>
      </body>
    </html>`
  return `${page.text}\n`
}

function header(result: AuditResult): Markup {
  const { target, startedAt, took, promise, promiseKept, worst, limiter } = result
  return html`<header class="${promiseKept ? 'kept' : 'broken'}">
    <p class="target">${target}</p>
    <h1>
      <span class="verdict">${promiseKept ? 'Kept:' : 'Broken:'}</span> ${afterColon(verdictOf(result))}
    </h1>
    <dl>
      ${fact('Promise', `${promise.quota} per ${windowOf(promise)}`)}
      ${fact(`Most in any ${windowOf(promise)}`, spreadOf(worst, ' to '))}
      ${fact('Excess', excessOf(worst.excess))} ${fact('Looks like', limiter.title)}
    </dl>
    <p class="small">
      ${promiseOf(promise)}. Measured from outside on
      <time datetime="${startedAt}">${startedAt.slice(0, 16).replace('T', ' ')} UTC</time>, in
      ${roughly(took)}.
    </p>
  </header>`
}

const fact = (name: string, value: string): Markup =>
  html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`

/** A sentence whose first word stands elsewhere. */
const afterColon = (sentence: string): string => sentence.slice(sentence.indexOf(': ') + 2)

function worstWindow(attack: AttackResult, { promise, worst }: AuditResult): Markup {
  const proof = proofOf(worst)
  return html`<section>
    <h2>The worst window</h2>
    <p>The attack <b>${attack.name}</b> ${attack.about}.</p>
    <figure>
      ${chart(attack, promise)}
      <figcaption>
        The line is how many were admitted in the ${windowOf(promise)} before each instant; the worst window
        is shaded. The bars below are requests by when they were sent, the taller the more.
      </figcaption>
    </figure>
    ${proof === undefined ? NOTHING : html`<p>${proof}</p>`} ${evidence(worst)}
  </section>`
}

function evidence({ evidence: requests }: AuditResult['worst']): Markup {
  if (requests.length === 0) return NOTHING
  const rows = requests.map(
    ({ sent, arrived, status }, i) =>
      html`<tr>
        <td>${i + 1}</td>
        <td>${secondsOf(sent)}</td>
        <td>${secondsOf(arrived)}</td>
        <td>${String(status)}</td>
      </tr>`
  )
  return html`<details>
    <summary>The ${requests.length} admitted requests that prove it</summary>
    <table>
      <thead>
        <tr>
          <th>#</th>
          <th>Sent</th>
          <th>Answered</th>
          <th>Status</th>
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>
  </details>`
}

function advice(result: AuditResult): Markup {
  const sentences = adviceOf(result)
  if (sentences.length === 0) return NOTHING
  return html`<section>
    <h2>What to do</h2>
    <ul>
      ${sentences.map(sentence => html`<li>${sentence}</li>`)}
    </ul>
  </section>`
}

function attacks({ attacks, promise }: AuditResult): Markup {
  const rows = attacks.map(
    attack =>
      html`<tr class="${attack.excess > 1 ? 'over' : ''}">
        <th scope="row">${attack.name}</th>
        <td>${attack.sent}</td>
        <td>${attack.admitted}</td>
        <td>${spreadOf(attack, ' to ')}</td>
        <td>${excessOf(attack.excess)}</td>
        <td>${attack.firstSecond}</td>
        <td>${attack.firstRefusalAfter === null ? 'never' : roughly(attack.firstRefusalAfter)}</td>
      </tr>`
  )
  return html`<section>
    <h2>The attacks</h2>
    <div class="wide">
      <table>
        <thead>
          <tr>
            <th>Attack</th>
            <th>Sent</th>
            <th>Admitted</th>
            <th>In any ${windowOf(promise)}</th>
            <th>Excess</th>
            <th>First second</th>
            <th>Refused after</th>
          </tr>
        </thead>
        <tbody>
          ${rows}
        </tbody>
      </table>
    </div>
    ${attacks.map(
      attack =>
        html`<details>
          <summary>${attack.name} <span class="small">${attack.about}</span></summary>
          <figure>${chart(attack, promise)}</figure>
        </details>`
    )}
  </section>`
}

function fields({ fields: { seen, checks } }: AuditResult): Markup {
  const examples = seen.map(
    ({ name, admitted, refused }) =>
      html`<tr>
        <th scope="row">${name}</th>
        <td><code>${admitted ?? '–'}</code></td>
        <td><code>${refused ?? '–'}</code></td>
      </tr>`
  )
  const table = html`<div class="wide">
    <table class="text">
      <thead>
        <tr>
          <th>Field</th>
          <th>On an admitted request</th>
          <th>On a refused one</th>
        </tr>
      </thead>
      <tbody>
        ${examples}
      </tbody>
    </table>
  </div>`
  return html`<section>
    <h2>What the fields say</h2>
    <ul class="checks">
      ${checks.map(check)}
    </ul>
    ${seen.length === 0 ? html`<p>No field about limits was seen.</p>` : table}
  </section>`
}

const ANSWERS = { true: 'true', false: 'false', careful: 'could be better', unseen: 'not seen' } as const

function check({ question, answer, seen, wrong, detail }: FieldCheck): Markup {
  const count = answer === 'false' ? `${wrong} of ${seen}: ` : ''
  return html`<li class="${answer}">
    <span class="chip">${ANSWERS[answer]}</span> <b>${question}</b>
    ${answer === 'unseen' ? NOTHING : html`<span class="small">${count}${detail}</span>`}
  </li>`
}

function others({ promise: { others }, limiter }: AuditResult): Markup {
  const policies = others.map(
    ({ policy, quota, window, unit }) =>
      html`<li>
        <code>${policy}</code>: ${quota ?? '?'}
        ${unit}${window === null ? '' : ` per ${windowOf({ window })}`}
      </li>`
  )
  return html`<section>
    <h2>The limiter</h2>
    <p>It looks like ${limiter.title}, for ${limiter.because}.</p>
    ${
      policies.length === 0
        ? NOTHING
        : html`<p>It has announced, and was not attacked for:</p>
            <ul>
              ${policies}
            </ul>`
    }
  </section>`
}

function notes({ notes }: AuditResult): Markup {
  if (notes.length === 0) return NOTHING
  return html`<section>
    <h2>How it was measured</h2>
    <ul>
      ${notes.map(note => html`<li>${note}</li>`)}
    </ul>
  </section>`
}
