// One task: all its trials over time and over features, its roofline, and the program of any trial beside another.
import * as api from '../api.js';
import {bars, barsHeight} from '../chart/bars.js';
import {Figure} from '../chart/figure.js';
import {roofline} from '../chart/roofline.js';
import {scatter} from '../chart/scatter.js';
import {bestSoFar} from '../chart/series.js';
import {choice, field, h} from '../dom.js';
import {count, flops, number, percent, shortId, shortKey, stamp, targetName, time, times} from '../format.js';
import {link, setQuery} from '../router.js';
import {Table} from '../table.js';
import {card, facts, missing, tabs} from '../widgets.js';
import {programs} from './programs.js';

const OUTCOME_TONES = {ok: 'tone-2', final: 'tone-1', build_error: 'sick', link_error: 'sick', wrong_result: 'quarantined', timeout: 'waiting', crash: 'quarantined', board_lost: 'lost', infra: 'drained'};
const TRIALS_PER_ASK = 100000;
const X_CHOICES = [['time_ms', 'time'], ['trial', 'number of the trial']];

/** Trials as objects of the columns that the page uses, their features kept in the row. */
function trialsOf(table) {
  const cell = api.columnsOf(table);
  return table.rows.map(row => ({
    id: cell(row, 'trial_id'), job: cell(row, 'job'), time_ms: cell(row, 'time_ms'), trial: cell(row, 'trial'), outcome: cell(row, 'outcome'), median_ns: cell(row, 'median_ns'),
    searcher: cell(row, 'searcher'), algorithm: cell(row, 'algorithm'), final: cell(row, 'final'), raced: cell(row, 'raced'), share: cell(row, 'share_of_peak'), value: name => cell(row, name),
  }));
}

async function loadTrials(view, key, target) {
  let table = null;
  for (let since = 0; ;) {
    const part = await api.optional(api.get(`tasks/${encodeURIComponent(key)}/trials`, {target, job: view.query.job, since, limit: TRIALS_PER_ASK}, view.signal));
    if (!part) return table;
    table = table ? {...table, rows: table.rows.concat(part.rows)} : part;
    if (part.rows.length === 0 || part.next === undefined || part.next === since) return table;
    since = part.next;
  }
}

/** All trials over time, over their number, or over a feature; the staircase is the best so far. */
function cloud(trials, features, view) {
  const x = () => view.query.x || 'time_ms';
  const isFeature = () => features.includes(x());
  const valid = trials.filter(trial => trial.median_ns > 0);
  const groups = () => ['ok', 'final'].map(name => ({name, tone: OUTCOME_TONES[name], trials: valid.filter(trial => (trial.final ? 'final' : 'ok') === name)}));
  const start = valid.reduce((least, trial) => Math.min(least, trial.time_ms ?? Infinity), Infinity);
  const at = trial => (x() === 'time_ms' ? (trial.time_ms - start) / 1000 : x() === 'trial' ? trial.trial : trial.value(x()));
  const select = choice([...X_CHOICES, ...features.map(name => [name, `feature: ${name}`])], x(), value => setQuery({x: value}), {'aria-label': 'Horizontal axis'});
  return new Figure({
    title: 'All trials', empty: 'No trial of this task ran to its end.', controls: h('div', {class: 'figure-controls'}, field('Over', select)),
    height: width => Math.max(260, Math.min(460, width * 0.4)),
    note: 'A click on a point shows that trial’s program below; the table lists the same trials.',
    draw: (width, height) => {
      const series = groups().map(group => ({...group, points: group.trials.map(trial => [at(trial), trial.median_ns])}));
      const chosen = valid.find(trial => trial.id === view.query.trial);
      return scatter({
        width, height, series, onPick: (name, index) => setQuery({trial: groups().find(group => group.name === name).trials[index].id}),
        x: {kind: 'linear', title: x() === 'time_ms' ? 'seconds since the first trial' : x() === 'trial' ? 'number of the trial' : x(), format: number},
        y: {kind: 'log', title: 'time of a run', format: time},
        curves: isFeature() ? [] : [{tone: 'tone-1', points: bestSoFar(valid.map(trial => [at(trial), trial.median_ns]).sort((a, b) => a[0] - b[0]))}],
        selected: chosen ? [at(chosen), chosen.median_ns] : null,
        describe: (name, index) => {
          const trial = groups().find(group => group.name === name).trials[index];
          return `${time(trial.median_ns)} · ${trial.searcher ?? ''} · trial ${trial.trial}`;
        },
      });
    },
    text: () => `${count(valid.length)} trials with a time; the fastest took ${time(valid.reduce((least, trial) => Math.min(least, trial.median_ns), Infinity))}.`,
    table: () => ({names: ['trial', x(), 'median_ns', 'outcome', 'searcher'], rows: trials.map(trial => [trial.id, x() === 'time_ms' ? trial.time_ms : at(trial), trial.median_ns, trial.outcome, trial.searcher])}),
  });
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

function roof(task, known, trials) {
  const best = trials.filter(trial => trial.median_ns > 0).reduce((least, trial) => (trial.median_ns < (least?.median_ns ?? Infinity) ? trial : least), null);
  const first = trials.find(trial => trial.searcher === 'default' && trial.median_ns > 0);
  const intensity = task.flops / task.bytes;
  const points = [['default', first, 'tone-4'], ['best', best, 'tone-1']].filter(([, trial]) => trial).map(([name, trial, tone]) => ({name, tone, intensity, rate: 1e9 * task.flops / trial.median_ns}));
  return new Figure({
    title: 'Roofline', empty: task.bytes ? 'The peak of this target is not known.' : 'The memory traffic of this task is not known to the server.', height: 280,
    note: `${points.map(point => `${point.name}: ${flops(point.rate)}`).join(', ')}. Operations per byte count each input and output once.`,
    draw: (width, height) => roofline({width, height, peak: known?.peak_flops, bandwidth: known?.bandwidth, points}),
    text: () => points.map(point => `${point.name} reaches ${percent(point.rate / Math.min(known.peak_flops, intensity * known.bandwidth))} of what is possible`).join('; '),
    table: () => ({names: ['schedule', 'operations per byte', 'operations per second'], rows: points.map(point => [point.name, point.intensity, point.rate])}),
  });
}

const trialColumns = view => [
  {name: 'trial', title: 'Trial', numeric: true, value: trial => trial.trial, cell: trial => h('button', {type: 'button', class: 'link', 'aria-label': `Show trial ${trial.trial}`, onclick: () => setQuery({trial: trial.id})}, String(trial.trial ?? shortId(trial.id)))},
  {name: 'time', title: 'Time', numeric: true, value: trial => trial.median_ns || undefined, cell: trial => time(trial.median_ns)},
  {name: 'share', title: 'Of peak', numeric: true, value: trial => trial.share, cell: trial => percent(trial.share)},
  {name: 'outcome', title: 'Outcome', value: trial => trial.outcome, cell: trial => (trial.final ? 'ok, final' : trial.raced ? 'ok, stopped early' : trial.outcome)},
  {name: 'searcher', title: 'Searcher', value: trial => trial.searcher},
  {name: 'algorithm', title: 'Algorithm', value: trial => trial.algorithm},
  {name: 'stored', title: 'Stored', numeric: true, value: trial => trial.time_ms, cell: trial => stamp(trial.time_ms)},
  {name: 'job', title: 'Job', value: trial => trial.job, cell: trial => h('a', {href: link(['jobs', trial.job])}, shortId(trial.job))},
  {name: 'beside', title: 'Beside', value: () => '', cell: trial => h('button', {type: 'button', class: 'link', 'aria-label': `Compare with trial ${trial.trial}`, onclick: () => setQuery({with: trial.id})}, 'compare')},
];

export async function show(view) {
  const [key] = view.parameters;
  const task = await api.get(`tasks/${encodeURIComponent(key)}`, {}, view.signal);
  const targets = task.targets ?? [];
  const target = view.query.target || targets[0]?.target;
  const known = targets.find(one => one.target === target);
  const lead = view.heading(task.label || task.op || shortKey(key));
  lead.textContent = `Task ${shortKey(key)}${target ? ` on ${targetName(target)}` : ''}${view.query.job ? `, trials of job ${shortId(view.query.job)} only` : ''}`;
  if (targets.length > 1) view.body.append(tabs('Target', targets.map(one => [one.target, targetName(one.target)]), target, name => link(['tasks', key], {target: name})));
  const loaded = await loadTrials(view, key, target);
  if (!loaded) {
    view.body.append(missing('The trials of this task are not in the database that this server asks.'));
    return;
  }
  const trials = trialsOf(loaded);
  const points = cloud(trials, loaded.features ?? [], view);
  const table = new Table(trialColumns(view), {caption: 'Trials', key: trial => trial.id, empty: 'No trials.', sort: {name: 'time', descending: false}, selected: () => view.query.trial});
  const fastest = trials.filter(trial => trial.median_ns > 0).sort((a, b) => a.median_ns - b.median_ns)[0];
  const program = h('div');
  view.body.append(
    points.element, h('div', {class: 'grid'}, roof(task, known, trials).element, outcomes(trials).element),
    program, h('section', {class: 'card'}, h('h2', {}, 'Trials'), table.element),
    card('About', facts([
      ['Key', key], ['Operators', task.op], ['Operations', task.flops ? count(task.flops) : null], ['Least memory traffic', task.bytes ? `${count(task.bytes)} bytes` : null], ['Target', target],
      ['Gain', known?.default_ns && known?.best_ns ? times(known.default_ns / known.best_ns) : null],
    ]), task.canonical ? h('pre', {class: 'code', tabindex: '0', 'aria-label': 'Computation'}, task.canonical) : null));
  table.set(trials);
  const showProgram = async () => {
    const [left, right] = [view.query.trial || fastest?.id, view.query.with];
    if (left) await programs(view, program, {left, right, tab: view.query.tab || 'trace'});
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
