// How well the learned cost model predicts, per target, and which features it uses.
import * as api from '../api.js';
import {bars, barsHeight} from '../chart/bars.js';
import {Figure} from '../chart/figure.js';
import {scatter} from '../chart/scatter.js';
import {h} from '../dom.js';
import {count, number, percent, targetName} from '../format.js';
import {link} from '../router.js';
import {Figures, missing, tabs} from '../widgets.js';

const FEATURES_MAX = 20;

function accuracy(model) {
  const cell = api.columnsOf(model.points);
  const points = model.points.rows.map(row => [cell(row, 'measured'), cell(row, 'predicted')]);
  return new Figure({
    title: 'Predicted against measured', empty: 'No predictions are kept.', height: width => Math.min(420, width * 0.8), note: 'Trials that the model had not seen. On a perfect model all points lie on one rising line.',
    draw: (width, height) => scatter({width, height, x: {kind: 'linear', title: 'measured', format: number}, y: {kind: 'linear', title: 'predicted', format: number}, series: [{name: 'trials', tone: 'tone-2', points}], describe: (_, index) => `measured ${number(points[index][0])}, predicted ${number(points[index][1])}`}),
    text: () => `${count(points.length)} trials${model.rank_correlation === undefined ? '' : `, rank correlation ${number(model.rank_correlation)}`}.`,
    table: () => ({names: ['measured', 'predicted'], rows: points}),
  });
}

function importance(model) {
  const all = [...model.importance].sort((a, b) => b.gain - a.gain);
  const sum = all.reduce((total, one) => total + one.gain, 0) || 1;
  const shown = all.slice(0, FEATURES_MAX);
  return new Figure({
    title: 'Importance of features', empty: 'The model has not split by any feature.', height: () => barsHeight(shown.length), note: all.length > FEATURES_MAX ? `The first ${FEATURES_MAX} of ${all.length} features.` : '',
    draw: width => bars({width, rows: shown.map(one => ({name: one.feature, value: one.gain / sum, tone: 'tone-1', text: percent(one.gain / sum, 1)}))}),
    text: () => shown.slice(0, 5).map(one => `${one.feature} ${percent(one.gain / sum)}`).join('; '),
    table: () => ({names: ['feature', 'gain'], rows: all.map(one => [one.feature, one.gain])}),
  });
}

export async function show(view) {
  const lead = view.heading('Cost model');
  const found = await api.optional(api.get('cost-model', {target: view.query.target}, view.signal));
  const models = found?.items ?? [];
  if (models.length === 0) {
    view.body.append(missing('There are too few records for a cost model yet, or this server does not know one.'));
    return;
  }
  const model = models.find(one => one.target === view.query.target) ?? models[0];
  lead.textContent = 'The model orders candidates before they are measured.';
  const numbers = new Figures();
  numbers.set([
    {label: 'Rank correlation', value: number(model.rank_correlation), note: 'on records it had not seen'},
    {label: 'Best found in its first tenth', value: percent(model.top_recall), note: 'of the ten best'},
    {label: 'Records', value: count(model.records), note: model.tasks ? `${count(model.tasks)} tasks` : ''},
  ]);
  view.body.append(tabs('Target', models.map(one => [one.target, targetName(one.target)]), model.target, name => link(['cost-model'], {target: name})), numbers.element,
    h('div', {class: 'grid'},
      model.points ? accuracy(model).element : missing('Predictions of this model are not available.'),
      model.importance ? importance(model).element : missing('Importance of features is not available.')));
}
