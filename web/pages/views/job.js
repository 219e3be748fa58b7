// One job: what its search has found so far, what that cost, and its winning schedules.
import * as api from '../api.js';
import {bars, barsHeight} from '../chart/bars.js';
import {Figure} from '../chart/figure.js';
import {line} from '../chart/line.js';
import {spark} from '../chart/spark.js';
import {h} from '../dom.js';
import {count, flops, number, percent, shortId, shortKey, span, time, times} from '../format.js';
import {gain, inference, isConfirmed, RESTS, shipped, Trials} from '../gains.js';
import {bounded, follow} from '../live.js';
import {link} from '../router.js';
import {Table} from '../table.js';
import {ask, chip, facts, Figures, missing, progress, targetText} from '../widgets.js';

const CURVES_MAX = 8; // tones of style.css
const TRIALS_PER_ASK = 100000;
const ENDED = ['done', 'failed', 'cancelled'];
const OUTCOME_TONES = {ok: 'free', build_error: 'sick', link_error: 'sick', wrong_result: 'quarantined', timeout: 'waiting', crash: 'quarantined', board_lost: 'lost', infra: 'drained'};

const taskLink = (job, task) => h('a', {href: link(['tasks', task.key], {job: job.job, target: job.target}), title: task.key}, task.label || task.op || shortKey(task.key));

/** Device time: of its trials' records, or as the server counts it. */
const boardSeconds = (job, trials) => job.board_seconds ?? (trials.boardNs ? trials.boardNs / 1e9 : undefined);

function numbersOf(job, trials) {
  const seconds = boardSeconds(job, trials);
  const whole = inference(job.tasks ?? []);
  const saved = whole.default_ns - whole.best_ns;
  return [
    {label: 'Gain over the default', value: whole.known ? times(whole.default_ns / whole.best_ns) : '–', note: whole.known ? `${time(whole.default_ns)} → ${time(whole.best_ns)}` : 'not every task has a time yet'},
    {label: 'Trials', value: count(job.done ?? 0), note: job.trials ? `of ${count(job.trials)}` : ''},
    {label: 'Time spent', value: span(job.age_ms), note: job.eta_ms && !ENDED.includes(job.state) ? `about ${span(job.eta_ms)} left` : ''},
    {label: 'Device time', value: seconds === undefined ? '–' : span(1000 * seconds), note: seconds && whole.known && saved > 0 ? `saves ${time(saved)} an inference` : `${job.boards ?? 0} boards now`},
    {label: 'Failed trials', value: percent(failedShare(job, trials), 1), note: `${count((job.tasks ?? []).reduce((sum, task) => sum + (task.failed ?? 0), 0))} trials`},
  ];
}

function failedShare(job, trials) {
  if (trials.total) return 1 - (trials.outcomes.get('ok') ?? 0) / trials.total;
  const sum = key => (job.tasks ?? []).reduce((total, task) => total + (task[key] ?? 0), 0);
  return sum('done') ? sum('failed') / sum('done') : undefined;
}

/** When the saved time has paid for the device time: after so many inferences. */
function bought(job, trials) {
  const seconds = boardSeconds(job, trials);
  const whole = inference(job.tasks ?? []);
  const saved = whole.default_ns - whole.best_ns;
  if (!whole.known || !(saved > 0) || !(seconds > 0)) return '';
  return `${span(1000 * seconds)} of devices bought ${time(saved)} per inference; they are paid back after ${count(seconds * 1e9 / saved)} inferences.`;
}

const taskColumns = (job, trials) => [
  {name: 'task', title: 'Task', value: task => task.label || task.op || task.key, cell: task => taskLink(job(), task)},
  {name: 'share', title: 'Time of an inference', numeric: true, value: task => task.share, cell: task => (task.share === undefined ? '–' : h('span', {class: 'with-progress'}, percent(task.share, 1), progress(task.share, 1, 'share of an inference')))},
  {name: 'default', title: 'Default', numeric: true, value: task => task.default_ns || undefined, cell: task => time(task.default_ns)},
  {name: 'best', title: 'Best', numeric: true, value: task => task.best_ns || undefined, cell: task => time(task.best_ns)},
  {name: 'gain', title: 'Gain', numeric: true, value: gain, cell: task => h('span', {title: isConfirmed(task) ? `at least ${times(task.gain_low)}, measured in turns` : 'not confirmed by a final yet'}, times(gain(task)), isConfirmed(task) ? ' ✓' : '')},
  {name: 'speed', title: 'Speed', numeric: true, value: task => (task.flops > 0 && task.best_ns > 0 ? task.flops / shipped(task) : undefined), cell: task => flops(task.flops > 0 && task.best_ns > 0 ? 1e9 * task.flops / shipped(task) : NaN)},
  {name: 'done', title: 'Trials', numeric: true, value: task => task.done ?? 0, cell: task => `${count(task.done ?? 0)}${task.planned && task.planned < 1e6 ? ` of ${count(task.planned)}` : ''}`},
  {name: 'failed', title: 'Failed', numeric: true, value: task => task.failed ?? 0},
  {name: 'curve', title: 'Convergence', value: task => trials.tasks.get(task.key)?.steps.length, cell: task => spark(trials.speed(task.key, task.default_ns), 'tone-1')},
  {name: 'rest', title: 'Note', value: task => task.fault || RESTS[task.rest ?? 0], cell: task => h('span', {class: 'clip', title: task.fault || RESTS[task.rest ?? 0]}, task.fault || RESTS[task.rest ?? 0] || '')},
];

/** Tasks with their share of an inference, their fault, and the names that records have for them. */
function tasksOf(job, labels) {
  const whole = inference(job.tasks ?? []);
  const faults = new Map((job.faults ?? []).map(fault => [fault.key, fault.text]));
  return (job.tasks ?? []).map(task => ({...task, label: labels.get(task.key), share: whole.best_ns > 0 && task.weight ? task.weight * shipped(task) / whole.best_ns : undefined, fault: faults.get(task.key)}));
}

function convergence(job, trials, labels) {
  const chosen = () => tasksOf(job(), labels).filter(task => trials.tasks.get(task.key)?.steps.length)
    .sort((a, b) => (b.share ?? 0) - (a.share ?? 0)).slice(0, CURVES_MAX);
  const series = () => chosen().map((task, index) => ({name: task.label || task.op || shortKey(task.key), tone: `tone-${index + 1}`, step: true, points: trials.speed(task.key, task.default_ns)}));
  return new Figure({
    title: 'Convergence', empty: 'No trial has been recorded yet.',
    note: () => `Speed over the default schedule, of the ${Math.min(CURVES_MAX, chosen().length)} tasks that take most of an inference.`,
    height: width => Math.max(240, Math.min(420, width * 0.35)),
    draw: (width, height) => line({width, height, x: {kind: 'linear', title: 'seconds since the first trial', format: number}, y: {kind: 'log', title: 'speed over default', format: times, include: [1]}, marks: [{value: 1, text: 'default'}], series: series()}),
    text: () => series().map(one => `${one.name}: ${times(one.points.at(-1)[1])}`).join('; '),
    table: () => ({names: ['task', 'seconds', 'speed over default'], rows: series().flatMap(one => one.points.map(point => [one.name, ...point]))}),
  });
}

function outcomes(trials) {
  const rows = () => [...trials.outcomes].sort((a, b) => b[1] - a[1]).map(([name, value]) => ({name, value, tone: OUTCOME_TONES[name] ?? 'muted', text: `${count(value)} · ${percent(value / trials.total, 1)}`}));
  return new Figure({
    title: 'Outcomes of trials', height: () => barsHeight(trials.outcomes.size), empty: 'No trial has been recorded yet.',
    draw: width => bars({width, rows: rows()}),
    text: () => rows().map(row => `${row.name} ${row.text}`).join('; '),
    table: () => ({names: ['outcome', 'trials'], rows: rows().map(row => [row.name, row.value])}),
  });
}

const WINNER_COLUMNS = [
  {name: 'task', title: 'Task', value: row => row.label || row.op || row.task_key, cell: row => h('a', {href: link(['tasks', row.task_key], {target: row.target, trial: row.trial_id}), title: row.task_key}, row.label || row.op || shortKey(row.task_key))},
  {name: 'time', title: 'Time', numeric: true, value: row => row.median_ns, cell: row => time(row.median_ns)},
  {name: 'gflops', title: 'Speed', numeric: true, value: row => row.gflops, cell: row => flops(1e9 * row.gflops)},
  {name: 'algorithm', title: 'Algorithm', value: row => row.algorithm},
  {name: 'in', title: 'Layouts in', value: row => row.layout_in, cell: row => h('code', {class: 'clip', title: row.layout_in}, row.layout_in ?? '')},
  {name: 'out', title: 'Layouts out', value: row => row.layout_out, cell: row => h('code', {class: 'clip', title: row.layout_out}, row.layout_out ?? '')},
  {name: 'searcher', title: 'Found by', value: row => row.searcher},
  {name: 'trial', title: 'Trial', numeric: true, value: row => row.trial_index},
];

async function winners(view, id, place, asked) {
  const table = new Table(WINNER_COLUMNS, {caption: 'Winning schedules', key: row => row.trial_id, empty: 'No schedule has won yet.', sort: {name: 'time', descending: true}});
  const found = await asked;
  place.append(found ? table.element : missing('The records of this job are not in the database that this server asks.'));
  if (found) table.set(found.items);
}

function actions(job) {
  const path = `jobs/${encodeURIComponent(job().job)}`;
  return [
    h('button', {type: 'button', class: 'quiet', onclick: () => ask({
      title: 'Change the priority', text: 'Among the jobs of one project, those of higher priority get boards first.', action: 'Change',
      fields: [{name: 'priority', label: 'Priority', type: 'number', value: String(job().priority ?? 0)}],
      run: ({priority}) => api.post(`${path}/priority`, {priority: Number(priority)}),
    })}, 'Priority'),
    h('button', {type: 'button', class: 'danger', onclick: () => ask({
      title: 'Cancel this job', text: 'Its records stay; what it has found so far can be used.', action: 'Cancel the job', isDangerous: true,
      fields: [{name: 'reason', label: 'Reason'}],
      run: ({reason}) => api.post(`${path}/cancel`, {reason}),
    })}, 'Cancel job'),
  ];
}

export async function show(view) {
  const [id] = view.parameters;
  const path = `jobs/${encodeURIComponent(id)}`;
  let next = 0;
  const askTrials = () => api.optional(api.get(`${path}/trials`, {since: next, limit: TRIALS_PER_ASK}, view.signal));
  let ahead = askTrials(); // beside the job: together they take as long as the longer
  ahead.catch(() => null); // whoever awaits it below is told
  let job = await api.get(path, {}, view.signal);
  const trials = new Trials();
  const labels = new Map();
  const best = api.optional(api.get('records/best', {job: id, limit: 1000}, view.signal)).catch(() => null);
  const buttons = actions(() => job);
  const lead = view.heading(job.model_name || `Job ${shortId(id)}`, h('span', {class: 'job-links'}), ...buttons);
  const numbers = new Figures();
  const about = h('div');
  const paid = h('p', {class: 'muted'});
  const table = new Table(taskColumns(() => job, trials), {caption: 'Tasks', key: task => task.key, empty: 'Its tasks are not known yet.', sort: {name: 'share', descending: true}});
  const curves = convergence(() => job, trials, labels);
  const ends = outcomes(trials);
  const won = h('section', {class: 'card'}, h('h2', {}, 'Winning schedules'));
  view.body.append(numbers.element, paid, curves.element, h('section', {class: 'card'}, h('h2', {}, 'Tasks'), table.element),
    h('div', {class: 'grid'}, ends.element, h('section', {class: 'card'}, h('h2', {}, 'About'), about)), won);

  const update = () => {
    lead.replaceChildren(chip(job.state), job.text ? ` ${job.text}` : '');
    buttons[1].hidden = buttons[0].hidden = ENDED.includes(job.state);
    numbers.set(numbersOf(job, trials));
    paid.textContent = bought(job, trials);
    table.set(tasksOf(job, labels));
    about.replaceChildren(facts([
      ['Job', job.job], ['Target', targetText(job.target)], ['Person', job.user], ['Project', job.project], ['Priority', job.priority], ['Searcher', job.searcher],
      ['Tuner', job.tuner_name || shortId(job.tuner)], ['Module', job.module ? h('a', {href: link(['modules', job.module])}, shortId(job.module)) : null],
      ['Boards', h('a', {href: link(['fleet'], {job: job.job})}, `${job.boards ?? 0} at work`)],
    ]));
  };
  const load = async () => {
    const asked = ahead ?? askTrials();
    ahead = null;
    const part = await asked;
    if (!part) return false;
    next = part.next ?? next;
    trials.add(part);
    return part.more;
  };
  const more = async () => {
    const before = trials.total;
    while (await load());
    if (trials.total === before) return;
    curves.draw();
    ends.draw();
    update();
  };
  update();
  for (const row of (await best)?.items ?? []) if (row.label) labels.set(row.task_key, row.label);
  update();
  await more();
  const soon = bounded(() => more().catch(() => null), () => (document.hidden ? 10000 : 1000)); // the next event tries again
  follow([`job:${id}`], {signal: view.signal, keys: {job: 'job', jobs: 'job'}, onState: view.setLive, onReset: async () => {
    job = await api.get(path, {}, view.signal);
    update();
    soon();
  }, on: Object.fromEntries(['job', 'jobs'].map(name => [name, change => {
    const row = change.rows.find(one => one.job === job.job);
    if (!row) return;
    job = {...job, ...row};
    update();
    soon();
  }]))});
  await winners(view, id, won, best);
}
