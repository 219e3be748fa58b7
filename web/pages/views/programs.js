// The program of a trial as trace, loops or assembly, alone or beside that of another trial.
import * as api from '../api.js';
import {sideBySide} from '../diff.js';
import {h} from '../dom.js';
import {flops, number, shortId, time} from '../format.js';
import {link, parse} from '../router.js';
import {inWords} from '../trace_words.js';
import {facts, missing, tabs} from '../widgets.js';

const STAGES = [['words', 'In words'], ['trace', 'Trace in words'], ['steps', 'Trace'], ['loops', 'Loops'], ['assembly', 'Assembly']];
const ROWS_MAX = 5000; // of a comparison; more lines are named, not shown

const routeOf = tab => (tab === 'steps' ? 'trace' : tab);

function describe(trial) {
  return facts([
    ['Trial', shortId(trial.trial_id)], ['Time', time(trial.median_ns)], ['Speed', trial.gflops ? flops(1e9 * trial.gflops) : null], ['Searcher', trial.searcher], ['Algorithm', trial.algorithm],
    ['Outcome', trial.outcome], ['What went wrong', trial.detail], ['Error of what is allowed', trial.error ? number(trial.error) : null], ['Registers', trial.registers || null], ['Spilled bytes', trial.spill_bytes || null],
  ]);
}

const code = (name, text) => h('pre', {class: 'code', tabindex: '0', 'aria-label': name}, text);

const words = (name, trace) => h('ol', {class: 'trace-words', 'aria-label': name}, inWords(trace).map(({step, words: said, isDecision}) => h('li', {class: isDecision ? 'decision' : null, title: step}, said)));

function comparison(left, right) {
  const rows = sideBySide(left, right);
  const different = rows.filter(([, , isSame]) => !isSame).length;
  const cell = text => h('td', {}, h('code', {}, text ?? ''));
  return h('div', {},
    h('p', {class: 'muted'}, different === 0 ? 'Both are the same.' : `${different} of ${rows.length} lines differ.${rows.length > ROWS_MAX ? ` The first ${ROWS_MAX} lines are shown.` : ''}`),
    h('div', {class: 'table-box', tabindex: '0', role: 'region', 'aria-label': 'Both programs side by side'}, h('table', {class: 'side-by-side'},
      h('thead', {}, h('tr', {}, h('th', {scope: 'col'}, 'This trial'), h('th', {scope: 'col'}, 'The other'))),
      h('tbody', {}, rows.slice(0, ROWS_MAX).map(([a, b, isSame]) => h('tr', {class: isSame ? null : 'different'}, cell(a), cell(b)))))));
}

async function load(view, id, tab) {
  const path = `trials/${encodeURIComponent(id)}`;
  const [trial, text] = await Promise.all([api.optional(api.get(path, {}, view.signal)), api.optional(api.text(`${path}/${routeOf(tab)}`, view.signal)).catch(error => ({error}))]);
  return {trial, text};
}

/** Shows trial `left`, beside `right` where one is named. */
export async function programs(view, place, {left, right, tab}) {
  const loaded = await Promise.all([left, right].filter(Boolean).map(id => load(view, id, tab)));
  const {path, query} = parse(location.hash);
  const texts = loaded.map(one => one.text);
  const bad = texts.find(text => text === null || text?.error);
  const names = loaded.map(({trial}, index) => `${tab} of ${shortId(trial?.trial_id ?? [left, right][index])}`);
  const shown = bad !== undefined ? missing(bad?.error?.message ?? 'The server cannot print this program.')
    : right && tab !== 'trace' ? comparison(...texts)
      : h('div', {class: right ? 'two' : null}, texts.map((text, index) => (tab === 'trace' ? words(names[index], text) : code(names[index], text))));
  place.replaceChildren(h('section', {class: 'card'},
    h('h2', {}, right ? 'Two programs' : 'Program of a trial'),
    h('div', {class: right ? 'two' : null}, loaded.map(({trial}) => (trial ? describe(trial) : missing('This trial is not in the database.')))),
    right ? h('p', {}, h('a', {href: link(path, {...query, with: ''})}, 'Show one alone')) : null,
    tabs('Form of the program', STAGES, tab, name => link(path, {...query, tab: name})), shown));
}
