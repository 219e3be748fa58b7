// One task: all its trials over time and over features, its roofline, and the program of any trial beside another.
import * as api from '../api.js';
import {bars, barsHeight} from '../chart/bars.js';
import {Figure} from '../chart/figure.js';
import {roofline} from '../chart/roofline.js';
import {scatter} from '../chart/scatter.js';
import {bestSoFar} from '../chart/series.js';
import {cellsOf} from '../columns.js';
import {field, h} from '../dom.js';
import {bytes, count, flops, number, percent, shortId, shortKey, stamp, targetName, time, times} from '../format.js';
import {link, setQuery} from '../router.js';
import {Table} from '../table.js';
import {card, facts, missing, tabs} from '../widgets.js';
import {programs} from './programs.js';

const OUTCOME_TONES = {ok: 'tone-2', final: 'tone-1', build_error: 'sick', link_error: 'sick', wrong_result: 'quarantined', timeout: 'waiting', crash: 'quarantined', board_lost: 'lost', infra: 'drained'};
const TRIALS_PER_ASK = 100000;
const X_CHOICES = [['time', 'time'], ['index', 'number of the trial']];
const LOAD = 'load';

const COLUMNS = ['trial_id', 'trial', 'time_ms', 'outcome', 'median_ns', 'searcher', 'algorithm', 'final', 'raced', 'share_of_peak', 'gflops', 'layout_in', 'layout_out'];

/** Trials of one part of the answer, as objects. */
function trialsOf(part) {
  const cell = cellsOf(part);
  const names = [...COLUMNS, ...(part.features ?? [])];
  return part.rows.map(row => Object.fromEntries(names.map(name => [name, cell(row, name)])));
}

/** {trials, features}: features are what the server has of each trial; those of the cost model are asked for apart. */
async function loadTrials(view, key, target) {
  const trials = [];
  for (let since = 0; ;) {
    const part = await api.optional(api.get(`tasks/${encodeURIComponent(key)}/trials`, {target, job: view.query.job, since, limit: TRIALS_PER_ASK}, view.signal));
    if (!part) return null;
    trials.push(...trialsOf(part));
    if (!part.more) return {trials, features: part.features ?? []};
    since = part.next;
  }
}

/** Features of trials, as the cost model sees them: {names, of: Map trial -> values}. The server replays every schedule for it. */
async function loadFeatures(view, key, target) {
  const found = await api.optional(api.get('cost-model', {target, task: key}, view.signal));
  const told = found?.trials;
  return {names: told?.features.map(one => one.feature) ?? [], of: new Map(told?.trials.map(one => [one.trial, one.values]))};
}

/** What the points lie over: [name, text]. */
const axesOf = (own, features) => [...X_CHOICES, ...own.map(name => [name, name]), ...(features ? features.names.map(name => [name, `feature: ${name}`]) : [[LOAD, 'features (the cost model is asked) …']])];

/** All trials over time, over their number, or over a feature; the staircase is the best so far. */
function cloud({trials, features: own}, view, key, target) {
  const valid = trials.filter(trial => trial.median_ns > 0);
  const start = valid.reduce((least, trial) => Math.min(least, trial.time_ms), Infinity);
  let features = null;
  const x = () => (features?.names.includes(view.query.x) || own.includes(view.query.x) || X_CHOICES.some(([name]) => name === view.query.x) ? view.query.x : 'time');
  const at = trial => (x() === 'time' ? (trial.time_ms - start) / 1000 : x() === 'index' ? trial.trial : own.includes(x()) ? trial[x()] : features.of.get(trial.trial_id)?.[features.names.indexOf(x())] ?? NaN);
  const groups = ['ok', 'final'].map(name => ({name, tone: OUTCOME_TONES[name], trials: valid.filter(trial => (trial.final ? 'final' : 'ok') === name)}));
  const select = h('select', {onchange: event => (event.target.value === LOAD ? load() : setQuery({x: event.target.value}))});
  const told = h('span', {class: 'hint', role: 'status'});
  const offer = () => select.replaceChildren(...axesOf(own, features).map(([value, text]) => h('option', {value, selected: value === x()}, text)));
  const load = async () => {
    told.textContent = 'The cost model learns …';
    features = await loadFeatures(view, key, target).catch(() => ({names: [], of: new Map()}));
    told.textContent = features.names.length ? '' : 'The server knows no features of these trials.';
    offer();
    if (!view.query.x || view.query.x === 'time') setQuery({x: features.names[0]});
    figure.draw();
  };
  const figure = new Figure({
    title: 'All trials', empty: 'No trial of this task ran to its end.', controls: h('div', {class: 'figure-controls'}, field('Over', select), told),
    height: width => Math.max(260, Math.min(460, width * 0.4)),
    note: 'A click on a point shows that trial’s program below; the table lists the same trials.',
    draw: (width, height) => {
      const chosen = valid.find(trial => trial.trial_id === view.query.trial);
      return scatter({
        width, height, series: groups.map(group => ({...group, points: group.trials.map(trial => [at(trial), trial.median_ns])})),
        onPick: (name, index) => setQuery({trial: groups.find(group => group.name === name).trials[index].trial_id}),
        x: {kind: 'linear', title: {time: 'seconds since the first trial', index: 'number of the trial'}[x()] ?? x(), format: number},
        y: {kind: 'log', title: 'time of a run', format: time},
        curves: ['time', 'index'].includes(x()) ? [{tone: 'tone-1', points: bestSoFar(valid.map(trial => [at(trial), trial.median_ns]).sort((a, b) => a[0] - b[0]))}] : [],
        selected: chosen ? [at(chosen), chosen.median_ns] : null,
        describe: (name, index) => {
          const trial = groups.find(group => group.name === name).trials[index];
          return `${time(trial.median_ns)} · ${trial.searcher} · trial ${trial.trial}`;
        },
      });
    },
    text: () => `${count(valid.length)} trials with a time; the fastest took ${time(valid.reduce((least, trial) => Math.min(least, trial.median_ns), Infinity))}.`,
    table: () => ({names: ['trial', x(), 'median_ns', 'outcome', 'searcher'], rows: trials.map(trial => [trial.trial_id, at(trial), trial.median_ns, trial.outcome, trial.searcher])}),
  });
  offer();
  if (view.query.x && view.query.x !== x()) load(); // a link to a feature
  return figure;
}

function outcomes(trials) {
  const counts = new Map();
  for (const trial of trials) counts.set(trial.outcome, (counts.get(trial.outcome) ?? 0) + 1);
  const rows = [...counts].sort((a, b) => b[1] - a[1]).map(([name, value]) => ({name, value, tone: OUTCOME_TONES[name] ?? 'muted', text: `${count(value)} · ${percent(value / trials.length, 1)}`}));
  return new Figure({
    title: 'Outcomes', height: () => barsHeight(rows.length), draw: width => bars({width, rows}),
    text: () => rows.map(row => `${row.name} ${row.text}`).join('; '), table: () => ({names: ['outcome', 'trials'], rows: rows.map(row => [row.name, row.value])}),
  });
}

/** Which rates the target's memory and caches have, or null where the server cannot say. */
const findLevels = (view, target) => (target ? api.optional(api.get('roofline', {target}, view.signal)).catch(() => null) : null);

/** Where the lines come from, and what they mean for these schedules. */
function levelsNote(found, isBound) {
  if (!found?.levels?.length) return 'Neither a measurement nor a statement of this target’s memory is known to the server, so only its peak is drawn.';
  const lines = found.levels.map(level => `${level.name} ${bytes(level.bytes_per_s)}/s`).join(', ');
  const whose = found.of === 'core' ? 'of one core, ' : '';
  return `Lines: ${lines} (${whose}${found.source}). ${isBound ? 'Memory bounds what does not stay in a cache' : 'These schedules use several cores, so the lines of one core do not bound them'}.`;
}

function roof(task, trials, fastest, found) {
  const first = trials.find(trial => trial.searcher === 'default' && trial.median_ns > 0);
  const of = trials.find(trial => trial.share_of_peak > 0);
  const peak = of ? 1e9 * of.gflops / of.share_of_peak : undefined;
  const levels = found?.levels ?? [];
  const isBound = found?.of === 'device' || ![first, fastest].some(trial => trial?.threads > 1);
  const points = [['default', first, 'tone-4'], ['best', fastest, 'tone-1']].filter(([, trial]) => trial).map(([name, trial, tone]) => ({name, tone, intensity: task.flops / task.bytes, rate: 1e9 * trial.gflops}));
  return new Figure({
    title: 'Roofline', empty: 'The operations, the memory traffic or the peak of this task are not known.', height: 280,
    note: `${points.map(point => `${point.name}: ${flops(point.rate)}`).join(', ')}. Operations per byte count each input and output once. ${levelsNote(found, isBound)}`,
    draw: (width, height) => roofline({width, height, peak, levels, isBound, points}),
    text: () => `${points.map(point => `${point.name} reaches ${percent(point.rate / peak)} of the peak`).join('; ')}. ${levels.map(level => `${level.name} gives ${bytes(level.bytes_per_s)} a second`).join('; ')}`,
    table: () => ({names: ['what', 'operations per byte', 'operations per second', 'bytes per second'], rows: [...points.map(point => [point.name, point.intensity, point.rate, null]), ['peak', null, peak, null], ...levels.map(level => [level.name, peak / level.bytes_per_s, null, level.bytes_per_s])]}),
  });
}

const TRIAL_COLUMNS = [
  {name: 'trial', title: 'Trial', numeric: true, value: trial => trial.trial, cell: trial => h('button', {type: 'button', class: 'link', 'aria-label': `Show trial ${trial.trial}`, onclick: () => setQuery({trial: trial.trial_id})}, String(trial.trial))},
  {name: 'time', title: 'Time', numeric: true, value: trial => trial.median_ns || undefined, cell: trial => time(trial.median_ns)},
  {name: 'share', title: 'Of peak', numeric: true, value: trial => trial.share_of_peak || undefined, cell: trial => (trial.share_of_peak ? percent(trial.share_of_peak) : '')},
  {name: 'outcome', title: 'Outcome', value: trial => trial.outcome, cell: trial => (trial.final ? 'ok, final' : trial.raced ? 'ok, stopped early' : trial.outcome)},
  {name: 'searcher', title: 'Searcher', value: trial => trial.searcher},
  {name: 'algorithm', title: 'Algorithm', value: trial => trial.algorithm},
  {name: 'stored', title: 'Stored', numeric: true, value: trial => trial.time_ms, cell: trial => stamp(trial.time_ms)},
  {name: 'in', title: 'Layouts in', value: trial => trial.layout_in, cell: trial => h('code', {class: 'clip', title: trial.layout_in}, trial.layout_in)},
  {name: 'out', title: 'Layouts out', value: trial => trial.layout_out, cell: trial => h('code', {class: 'clip', title: trial.layout_out}, trial.layout_out)},
  {name: 'beside', title: 'Beside', value: () => '', cell: trial => h('button', {type: 'button', class: 'link', 'aria-label': `Compare with trial ${trial.trial}`, onclick: () => setQuery({with: trial.trial_id})}, 'compare')},
];

export async function show(view) {
  const [key] = view.parameters;
  const task = await api.get(`tasks/${encodeURIComponent(key)}`, {}, view.signal);
  const targets = task.targets ?? [];
  const target = view.query.target || targets[0]?.target;
  const lead = view.heading(task.label || task.op || shortKey(key));
  lead.textContent = `Task ${shortKey(key)}${target ? ` on ${targetName(target)}` : ''}${view.query.job ? `, trials of job ${shortId(view.query.job)} only` : ''}`;
  if (targets.length > 1) view.body.append(tabs('Target', targets.map(one => [one.target, targetName(one.target)]), target, name => link(['tasks', key], {target: name})));
  const [loaded, found] = await Promise.all([loadTrials(view, key, target), findLevels(view, target)]);
  if (!loaded) {
    view.body.append(missing('The trials of this task are not in the database that this server asks.'));
    return;
  }
  const {trials} = loaded;
  const points = cloud(loaded, view, key, target);
  const table = new Table(TRIAL_COLUMNS, {caption: 'Trials', key: trial => trial.trial_id, empty: 'No trials.', sort: {name: 'time', descending: false}, selected: () => view.query.trial});
  const fastest = trials.reduce((least, trial) => (trial.median_ns > 0 && trial.median_ns < (least?.median_ns ?? Infinity) ? trial : least), null);
  const first = trials.find(trial => trial.searcher === 'default' && trial.median_ns > 0);
  const program = h('div');
  view.body.append(
    points.element, h('div', {class: 'grid'}, roof(task, trials, fastest, found).element, outcomes(trials).element),
    program, h('section', {class: 'card'}, h('h2', {}, 'Trials'), table.element),
    card('About', facts([
      ['Key', key], ['Operators', task.op], ['Operations', task.flops ? count(task.flops) : null], ['Least memory traffic', task.bytes ? `${count(task.bytes)} bytes` : null], ['Target', target],
      ['Gain over the default', first && fastest ? times(first.median_ns / fastest.median_ns) : null],
    ]), task.program ? h('pre', {class: 'code', tabindex: '0', 'aria-label': 'Computation'}, task.program) : null));
  table.set(trials);
  const showProgram = async () => {
    const [left, right] = [view.query.trial || fastest?.trial_id, view.query.with];
    if (left) await programs(view, program, {left, right, tab: view.query.tab || 'words'});
  };
  let shown = JSON.stringify(['x', 'trial', 'with', 'tab'].map(name => view.query[name]));
  view.onQuery = query => {
    const now = JSON.stringify(['x', 'trial', 'with', 'tab'].map(name => query[name]));
    view.query = query;
    if (now === shown) return;
    shown = now;
    points.draw();
    table.refresh();
    showProgram().catch(view.fail);
  };
  await showProgram();
}
