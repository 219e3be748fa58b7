// How well the learned cost model ranks trials that it has not seen, per target and task, and which features it uses.
import * as api from '../api.js';
import {cellsOf} from '../columns.js';
import {bars, barsHeight} from '../chart/bars.js';
import {Figure} from '../chart/figure.js';
import {scatter} from '../chart/scatter.js';
import {h} from '../dom.js';
import {count, number, percent, shortKey, targetName} from '../format.js';
import {link} from '../router.js';
import {Table} from '../table.js';
import {Figures, missing, tabs} from '../widgets.js';

const FEATURES_MAX = 20;

function accuracy(model) {
  const cell = cellsOf(model.points);
  const points = model.points.rows.map(row => [cell(row, 'measured'), cell(row, 'predicted')]);
  return new Figure({
    title: 'Predicted against measured', empty: 'No trial was held out.', height: width => Math.min(400, width * 0.7),
    note: 'Trials that the model had not seen, in doublings of speed below the fastest of their task. On a perfect model all points lie on one rising line.',
    draw: (width, height) => scatter({
      width, height, x: {kind: 'linear', title: 'measured', format: number}, y: {kind: 'linear', title: 'predicted', format: number},
      series: [{name: 'trials', tone: 'tone-2', points}], describe: (_, index) => `measured ${number(points[index][0])}, predicted ${number(points[index][1])}`,
    }),
    text: () => `${count(points.length)} trials, rank correlation ${number(model.rank_correlation)}.`,
    table: () => ({names: ['measured', 'predicted'], rows: points}),
  });
}

function importance(features) {
  const all = [...features].sort((a, b) => b.gain - a.gain);
  const sum = all.reduce((total, one) => total + one.gain, 0) || 1;
  const shown = all.slice(0, FEATURES_MAX);
  return new Figure({
    title: 'Importance of features', empty: 'The model has not split by any feature.', height: () => barsHeight(shown.length), note: all.length > FEATURES_MAX ? `The first ${FEATURES_MAX} of ${all.length} features.` : '',
    draw: width => bars({width, rows: shown.map(one => ({name: one.feature, value: one.gain / sum, tone: 'tone-1', text: percent(one.gain / sum, 1)}))}),
    text: () => shown.slice(0, 5).map(one => `${one.feature} ${percent(one.gain / sum)}`).join('; '),
    table: () => ({names: ['feature', 'unit', 'meaning', 'importance'], rows: all.map(one => [one.feature, one.unit, one.doc, one.gain])}),
  });
}

const columns = target => [
  {name: 'task', title: 'Task', value: task => task.op || task.task, cell: task => h('a', {href: link(['tasks', task.task], {target}), title: task.task}, `${task.op || 'task'} ${shortKey(task.task)}`)},
  {name: 'rank', title: 'Rank correlation', numeric: true, value: task => task.rank_correlation, cell: task => number(task.rank_correlation)},
  {name: 'pairs', title: 'Pairs in order', numeric: true, value: task => task.pairs_right, cell: task => percent(task.pairs_right, 1)},
  {name: 'held', title: 'Trials held out', numeric: true, value: task => task.held_out, cell: task => count(task.held_out)},
  {name: 'samples', title: 'Trials', numeric: true, value: task => task.samples, cell: task => count(task.samples)},
];

export async function show(view) {
  view.heading('Cost model').textContent = 'The model orders candidates before they are measured. Here it learns from three quarters of a target’s trials and ranks the others.';
  const wait = h('p', {class: 'muted', role: 'status'}, 'The model learns …');
  view.body.append(wait);
  const found = await api.optional(api.get('cost-model', {target: view.query.target}, view.signal));
  wait.remove();
  const model = found?.items.find(one => one.importance);
  const targets = (found?.items ?? []).map(one => one.target);
  if (targets.length > 1) view.body.append(tabs('Target', targets.sort().map(one => [one, targetName(one)]), model?.target, name => link(['cost-model'], {target: name})));
  if (!model) {
    view.body.append(missing('There are too few records for a cost model yet, or this server does not know one.'));
    return;
  }
  const isJudged = model.held_out > 0;
  const numbers = new Figures();
  numbers.set([
    {label: 'Rank correlation', value: isJudged ? number(model.rank_correlation) : '–', note: 'mean over tasks; 1 is perfect'},
    {label: 'Best found in its first tenth', value: isJudged ? percent(model.top_recall) : '–', note: 'of the ten fastest trials'},
    {label: 'Learnt from', value: count(model.learnt_from), note: `of ${count(model.records)} records`},
    {label: 'Held out', value: count(model.held_out), note: model.unreadable ? `${count(model.unreadable)} could not be read` : ''},
  ]);
  const table = new Table(columns(model.target), {caption: 'Tasks', key: one => one.task, empty: 'No task has enough trials to be judged.', sort: {name: 'held', descending: true}});
  view.body.append(numbers.element, h('div', {class: 'grid'}, accuracy(model).element, importance(model.importance).element), table.element);
  table.set(model.by_task ?? []);
}
