/** The looks of the report: light and dark, on a screen of any width and on paper. */
export const STYLE = `
:root {
  color-scheme: light dark;
  --page: light-dark(#fbfbfa, #16181c);
  --sheet: light-dark(#ffffff, #1e2127);
  --ink: light-dark(#1c1e21, #e9eaec);
  --soft: light-dark(#5c6470, #a2a9b4);
  --rule: light-dark(#e1e3e6, #343942);
  --good: light-dark(#1a7f4b, #4cc38a);
  --bad: light-dark(#c22f2f, #ff7b72);
  --doubt: light-dark(#946200, #e3b341);
  --count: light-dark(#2457c5, #7aa7ff);
  --shade: light-dark(#c22f2f1f, #ff7b7226);
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 64rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
header, section { background: var(--sheet); border: 1px solid var(--rule); border-radius: 0.75rem; padding: 1.25rem 1.5rem; margin-bottom: 1.25rem; }
header { border-top: 0.4rem solid var(--good); }
header.broken { border-top-color: var(--bad); }
.target { margin: 0; color: var(--soft); overflow-wrap: anywhere; font-family: ui-monospace, monospace; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0.25rem 0 1rem; }
h2 { font-size: 1.1rem; margin: 0 0 0.5rem; }
.verdict { color: var(--good); }
.broken .verdict { color: var(--bad); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 1rem; margin: 0 0 1rem; }
dt { color: var(--soft); font-size: 0.85rem; }
dd { margin: 0; font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.small, figcaption { color: var(--soft); font-size: 0.875rem; }
header .small { margin-bottom: 0; }
figure { margin: 0.5rem 0; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--soft); text-anchor: middle; }
svg text.left { text-anchor: end; }
svg .grid line, svg .tick line, svg .axis { stroke: var(--rule); }
svg .filled { fill: var(--count); opacity: 0.14; }
svg .count { fill: none; stroke: var(--count); stroke-width: 2; }
svg .quota line { stroke: var(--ink); stroke-width: 1.5; stroke-dasharray: 6 4; }
svg .quota text { text-anchor: end; fill: var(--ink); }
svg .worst { fill: var(--shade); }
svg .admitted, svg .refused, svg .failed { stroke-width: 3; }
svg .admitted { stroke: var(--good); }
svg .refused { stroke: var(--bad); }
svg .failed { stroke: var(--doubt); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 0.35rem 0.6rem; border-bottom: 1px solid var(--rule); white-space: nowrap; }
thead th { color: var(--soft); font-size: 0.85rem; font-weight: 500; }
th:first-child, .text th, .text td { text-align: left; }
tbody th { font-weight: 500; }
.text td { white-space: normal; overflow-wrap: anywhere; }
tr.over td, tr.over th { color: var(--bad); font-weight: 600; }
code { font: 0.875em ui-monospace, monospace; }
details { border-top: 1px solid var(--rule); margin-top: 0.5rem; padding-top: 0.5rem; }
summary { cursor: pointer; }
summary:focus-visible { outline: 2px solid var(--count); outline-offset: 2px; }
.checks { list-style: none; padding: 0; margin: 0 0 1rem; display: grid; gap: 0.5rem; }
.checks .small { display: block; }
.chip { display: inline-block; min-width: 7.5rem; text-align: center; border: 1px solid; border-radius: 1rem; font-size: 0.8rem; padding: 0 0.6rem; margin-right: 0.35rem; }
.checks .true .chip { color: var(--good); }
.checks .false .chip { color: var(--bad); }
.checks .careful .chip { color: var(--doubt); }
.checks .unseen .chip { color: var(--soft); }
@media (max-width: 40rem) {
  main { padding: 0.75rem 0.5rem 2rem; }
  header, section { padding: 1rem; border-radius: 0.5rem; }
  h1 { font-size: 1.25rem; }
  figure { overflow-x: auto; }
  svg { min-width: 36rem; }
}
@media print {
  :root { color-scheme: light; }
  body { background: none; font-size: 11pt; }
  main { max-width: none; padding: 0; }
  header, section { border-radius: 0; break-inside: avoid; }
  details { display: none; }
}
`
