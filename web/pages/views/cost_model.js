// How well the learned cost model ranks trials that it has not seen, per target and task, and which features it uses.
import * as api from '../api.js';
import {bars, barsHeight} from '../chart/bars.js';
import {Figure} from '../chart/figure.js';
import {scatter} from '../chart/scatter.js';
import {h} from '../dom.js';
import {count, number, percent, shortKey, targetName, time} from '../format.js';
import {link} from '../router.js';
import {Table} from '../table.js';
import {Figures, missing, tabs} from '../widgets.js';

const FEATURES_MAX = 20;

/** A mean over tasks, weighted by the trials that were held out; undefined without any. */
export function weightedMean(tasks, name) {
  const total = tasks.reduce((sum, task) => sum + task.held_out, 0);
  return total ? tasks.reduce((sum, task) => sum + task.held_out * task[name], 0) / total : undefined;
}

function accuracy(task) {
  return new Figure({
    title: `Score against time: ${task.op || shortKey(task.task)}`, empty: 'No trial of this task was held out.', height: width => Math.min(400, width * 0.7),
    note: 'Trials that the model had not seen. A perfect model gives fast trials high scores: all points lie on one falling line.',
    draw: (width, height) => scatter({
      width, height, x: {kind: 'linear', title: 'score of the model', format: number}, y: {kind: 'log', title: 'measured time', format: time},
      series: [{name: 'trials', tone: 'tone-2', points: task.points}], describe: (_, index) => `score ${number(task.points[index][0])}, ${time(task.points[index][1])}`,
    }),
    text: () => `${count(task.points.length)} trials, rank correlation ${number(task.rank_correlation)}.`,
    table: () => ({names: ['score', 'median_ns'], rows: task.points}),
  });
}

function importance(features) {
  const all = [...features].sort((a, b) => b.importance - a.importance);
  const sum = all.reduce((total, one) => total + one.importance, 0) || 1;
  const shown = all.slice(0, FEATURES_MAX);
  return new Figure({
    title: 'Importance of features', empty: 'The model has not split by any feature.', height: () => barsHeight(shown.length), note: all.length > FEATURES_MAX ? `The first ${FEATURES_MAX} of ${all.length} features.` : '',
    draw: width => bars({width, rows: shown.map(one => ({name: one.name, value: one.importance / sum, tone: 'tone-1', text: percent(one.importance / sum, 1)}))}),
    text: () => shown.slice(0, 5).map(one => `${one.name} ${percent(one.importance / sum)}`).join('; '),
    table: () => ({names: ['feature', 'unit', 'meaning', 'importance'], rows: all.map(one => [one.name, one.unit, one.doc, one.importance])}),
  });
}

const columns = target => [
  {name: 'task', title: 'Task', value: task => task.op || task.task, cell: task => h('a', {href: link(['cost-model'], {target, task: task.task}), title: task.task}, `${task.op || 'task'} ${shortKey(task.task)}`)},
  {name: 'rank', title: 'Rank correlation', numeric: true, value: task => task.rank_correlation, cell: task => number(task.rank_correlation)},
  {name: 'pairs', title: 'Pairs in order', numeric: true, value: task => task.pairs_right, cell: task => percent(task.pairs_right, 1)},
  {name: 'held', title: 'Trials held out', numeric: true, value: task => task.held_out, cell: task => count(task.held_out)},
  {name: 'samples', title: 'Trials', numeric: true, value: task => task.samples, cell: task => count(task.samples)},
  {name: 'trials', title: 'See', value: () => '', cell: task => h('a', {href: link(['tasks', task.task], {target})}, 'all trials')},
];

export async function show(view) {
  const lead = view.heading('Cost model');
  const stats = await api.get('records/stats', {limit: 1000}, view.signal);
  const targets = [...new Set(stats.items.map(row => row.target))].sort();
  const target = view.query.target || targets[0];
  if (!target) {
    view.body.append(missing('There are no records yet from which a cost model could learn.'));
    return;
  }
  lead.textContent = 'The model orders candidates before they are measured. Here it learns from three quarters of a target’s trials and ranks the others.';
  view.body.append(tabs('Target', targets.map(one => [one, targetName(one)]), target, name => link(['cost-model'], {target: name})));
  const wait = h('p', {class: 'muted', role: 'status'}, 'The model learns …');
  view.body.append(wait);
  const found = await api.optional(api.get('cost-model', {target}, view.signal));
  wait.remove();
  const model = found?.items[0];
  if (!model) {
    view.body.append(missing('There are too few records of this target for a cost model yet, or this server does not know one.'));
    return;
  }
  const numbers = new Figures();
  numbers.set([
    {label: 'Rank correlation', value: number(weightedMean(model.tasks, 'rank_correlation')), note: 'mean over tasks; 1 is perfect'},
    {label: 'Pairs in order', value: percent(weightedMean(model.tasks, 'pairs_right'), 1), note: 'the faster has the higher score'},
    {label: 'Learnt from', value: count(model.learnt_from), note: `of ${count(model.samples)} trials`},
    {label: 'Held out', value: count(model.held_out), note: model.unreadable ? `${count(model.unreadable)} could not be read` : ''},
  ]);
  const task = model.tasks.find(one => one.task === view.query.task) ?? model.tasks[0];
  const table = new Table(columns(target), {caption: 'Tasks', key: one => one.task, empty: 'No task has enough trials to be judged.', sort: {name: 'held', descending: true}, selected: () => task?.task});
  view.body.append(numbers.element, h('div', {class: 'grid'}, task ? accuracy(task).element : missing('No task of this target has enough trials to be judged.'), importance(model.features).element), table.element);
  table.set(model.tasks);
}
