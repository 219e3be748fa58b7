// The records: the best, the fastest, the history, and comparisons of two targets or two dates.
import * as api from '../api.js';
import {bars, barsHeight} from '../chart/bars.js';
import {Figure} from '../chart/figure.js';
import {choice, field, h} from '../dom.js';
import {count, flops, percent, shortId, shortKey, stamp, targetName, time, times} from '../format.js';
import {link, setQuery} from '../router.js';
import {Table} from '../table.js';
import {missing, tabs, targetText} from '../widgets.js';

const TABS = [['best', 'Best of each task'], ['top', 'Fastest'], ['history', 'History'], ['stats', 'Counts'], ['compare', 'Compare']];
const LIMIT = 1000;
const REGRESSION = 1.02; // slower by more than usual noise
const DAY_MS = 86400000;

const taskLink = row => h('a', {href: link(['tasks', row.task_key], {target: row.target, trial: row.trial_id}), title: row.task_key}, row.label || row.op || shortKey(row.task_key));

const RECORD_COLUMNS = [
  {name: 'task', title: 'Task', value: row => row.label || row.op || row.task_key, cell: taskLink},
  {name: 'time', title: 'Time', numeric: true, value: row => row.median_ns || undefined, cell: row => time(row.median_ns)},
  {name: 'gflops', title: 'Speed', numeric: true, value: row => row.gflops, cell: row => flops(1e9 * row.gflops)},
  {name: 'target', title: 'Target', value: row => row.target, cell: row => targetText(row.target)},
  {name: 'outcome', title: 'Outcome', value: row => row.outcome},
  {name: 'algorithm', title: 'Algorithm', value: row => row.algorithm},
  {name: 'model', title: 'Model', value: row => row.model},
  {name: 'searcher', title: 'Searcher', value: row => row.searcher},
  {name: 'user', title: 'Person', value: row => row.user},
  {name: 'job', title: 'Job', value: row => row.job_id, cell: row => (row.job_id ? h('a', {href: link(['jobs', row.job_id])}, shortId(row.job_id)) : '')},
  {name: 'stored', title: 'Stored', numeric: true, value: row => row.stored_wall_ns / 1e6, cell: row => stamp(row.stored_wall_ns / 1e6)},
];
const STATS_COLUMNS = [
  {name: 'task', title: 'Task', value: row => row.op || row.task, cell: row => h('a', {href: link(['tasks', row.task], {target: row.target}), title: row.task}, row.label || row.op || shortKey(row.task))},
  {name: 'target', title: 'Target', value: row => row.target, cell: row => targetText(row.target)},
  {name: 'records', title: 'Records', numeric: true, value: row => row.records, cell: row => count(row.records)},
  {name: 'ok', title: 'Ok', numeric: true, value: row => row.ok, cell: row => count(row.ok)},
  {name: 'best', title: 'Best', numeric: true, value: row => row.best_ns || undefined, cell: row => time(row.best_ns)},
  {name: 'outcomes', title: 'Outcomes', value: row => Object.entries(row.outcomes ?? {}).map(([name, number]) => `${name} ${number}`).join(', ')},
];
const COMPARE_COLUMNS = [
  {name: 'task', title: 'Task', value: row => row.label || row.op || row.task, cell: row => h('a', {href: link(['tasks', row.task]), title: row.task}, row.label || row.op || shortKey(row.task))},
  {name: 'a', title: 'First', numeric: true, value: row => row.a?.median_ns, cell: row => time(row.a?.median_ns)},
  {name: 'b', title: 'Second', numeric: true, value: row => row.b?.median_ns, cell: row => time(row.b?.median_ns)},
  {name: 'ratio', title: 'Second over first', numeric: true, value: row => row.ratio, cell: row => h('span', {class: row.ratio > REGRESSION ? 'worse' : null}, times(row.ratio), row.ratio > REGRESSION ? ' slower' : '')},
];

/** Rows of a comparison with their ratio; the worst first. */
export function compared(items) {
  return items.map(row => ({...row, ratio: row.a?.median_ns > 0 && row.b?.median_ns > 0 ? row.b.median_ns / row.a.median_ns : undefined}))
    .sort((a, b) => (b.ratio ?? 0) - (a.ratio ?? 0));
}

function filterForm(query, targets) {
  const target = choice([['', 'any target'], ...targets.map(one => [one, targetName(one)])], query.target ?? '', value => setQuery({target: value}));
  const task = h('input', {type: 'search', value: query.task ?? '', onchange: event => setQuery({task: event.target.value.trim()})});
  const search = h('input', {type: 'search', value: query.q ?? '', oninput: event => setQuery({q: event.target.value})});
  return h('form', {class: 'filters', role: 'search', 'aria-label': 'Filters', onsubmit: event => event.preventDefault()},
    field('Search in these rows', search), field('Task key', task, 'its beginning is enough'), field('Target', target));
}

async function showList(view, tab, targets) {
  const table = new Table(tab === 'stats' ? STATS_COLUMNS : RECORD_COLUMNS, {caption: TABS.find(([name]) => name === tab)[1], empty: 'No record matches.', sort: {name: tab === 'history' ? 'stored' : tab === 'stats' ? 'records' : 'time', descending: tab === 'history' || tab === 'stats'}});
  const note = h('p', {class: 'muted', role: 'status'});
  view.body.append(filterForm(view.query, targets), note, table.element);
  let page = {items: []};
  let asked;
  const refresh = () => {
    const words = (view.query.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
    const text = row => [row.label, row.op, row.task_key, row.task, row.target, row.model, row.user, row.project, row.algorithm, row.job_id, row.trial_id].join(' ').toLowerCase();
    table.set(words.length ? page.items.filter(row => words.every(word => text(row).includes(word))) : page.items);
  };
  const load = async () => {
    const filters = {task: view.query.task, target: view.query.target, job: view.query.job};
    const now = JSON.stringify(filters);
    if (now !== asked) {
      asked = now;
      page = await api.get(`records/${tab}`, {...filters, ...(tab === 'stats' && {job: undefined}), ...(tab === 'history' && {newest: true}), limit: LIMIT}, view.signal);
      note.textContent = page.more || page.total > page.items.length ? `These are the first ${count(page.items.length)} rows; name a task or a target to see others.` : '';
    }
    refresh();
  };
  view.onQuery = query => {
    if ((query.tab || 'best') !== tab) return view.again();
    view.query = query;
    load().catch(view.fail);
  };
  await load();
}

async function showComparison(view, targets) {
  const query = view.query;
  const kind = query.kind || 'targets';
  const options = targets.map(one => [one, targetName(one)]);
  const day = ms => new Date(ms).toISOString().slice(0, 10);
  const now = Date.now();
  const [from, to] = [query.from || day(now - 7 * DAY_MS), query.to || day(now + DAY_MS)];
  const date = (name, value) => h('input', {type: 'date', value, onchange: event => setQuery({[name]: event.target.value})});
  const inputs = kind === 'targets'
    ? [field('First target', choice(options, query.a || targets[0], value => setQuery({a: value}))), field('Second target', choice(options, query.b || targets[1] || targets[0], value => setQuery({b: value})))]
    : [field('Best before', date('from', from)), field('Best before (second)', date('to', to)), field('Target', choice([['', 'any target'], ...options], query.target ?? '', value => setQuery({target: value})))];
  view.body.append(tabs('What is compared', [['targets', 'Two targets'], ['dates', 'Two dates']], kind, name => link(['records'], {tab: 'compare', kind: name})), h('form', {class: 'filters', 'aria-label': 'What to compare', onsubmit: event => event.preventDefault()}, inputs));
  view.onQuery = () => view.again();
  const asked = kind === 'targets' ? {a: query.a || targets[0], b: query.b || targets[1] || targets[0]} : {from, to, target: query.target};
  if (targets.length === 0) {
    view.body.append(missing('There are no records yet.'));
    return;
  }
  const found = await api.optional(api.get('records/compare', {...asked, limit: LIMIT}, view.signal));
  if (!found) {
    view.body.append(missing('The server does not compare records.'));
    return;
  }
  const rows = compared(found.items);
  const known = rows.filter(row => row.ratio);
  const worse = known.filter(row => row.ratio > REGRESSION);
  const shown = known.length > 20 ? [...known.slice(0, 10), ...known.slice(-10)] : known;
  const figure = new Figure({
    title: 'Second over first', height: () => barsHeight(shown.length), empty: 'No task has records on both sides.', note: 'Above 1 the second is slower. At most the ten worst and the ten best.',
    draw: width => bars({width, rows: shown.map(row => ({name: row.label || row.op || shortKey(row.task), value: row.ratio, mark: 1, tone: row.ratio > REGRESSION ? 'quarantined' : row.ratio < 1 / REGRESSION ? 'free' : 'tone-2', text: times(row.ratio)}))}),
    text: () => `${count(worse.length)} of ${count(known.length)} tasks are slower.`,
    table: () => ({names: ['task', 'first_ns', 'second_ns', 'ratio'], rows: rows.map(row => [row.task, row.a?.median_ns, row.b?.median_ns, row.ratio])}),
  });
  const table = new Table(COMPARE_COLUMNS, {caption: 'Comparison', key: row => row.task, empty: 'No task has records on either side.', sort: {name: 'ratio', descending: true}});
  view.body.append(h('p', {role: 'status'}, `${count(worse.length)} of ${count(known.length)} tasks are slower by more than ${percent(REGRESSION - 1)}.`), figure.element, table.element);
  table.set(rows);
}

export async function show(view) {
  const tab = TABS.some(([name]) => name === view.query.tab) ? view.query.tab : 'best';
  view.heading('Records', h('a', {class: 'button quiet', href: api.address('records/export'), download: 'records.jsonl'}, 'Export as JSON lines'));
  view.body.append(tabs('Kinds of rows', TABS, tab, name => link(['records'], {...view.query, tab: name})));
  const stats = await api.get('records/stats', {limit: LIMIT}, view.signal);
  const targets = [...new Set(stats.items.map(row => row.target))].sort();
  if (tab === 'compare') await showComparison(view, targets);
  else await showList(view, tab, targets);
}
