// A model in, a target and a budget: a compile job.
import * as api from '../api.js';
import {choice, field, h} from '../dom.js';
import {bytes, percent, targetName} from '../format.js';
import {link} from '../router.js';
import {upload} from '../upload.js';
import {card, progress} from '../widgets.js';

const BUDGETS = [['none', 'none: default schedules, at once'], ['trials', 'number of trials'], ['seconds', 'seconds']];
const PRECISIONS = [['f32', 'f32'], ['auto', 'any that the accuracy allows'], ['bf16', 'bf16'], ['f16', 'f16'], ['int8', 'int8, of quantised models']];
const DEFAULT_BUDGET = {trials: '1000', seconds: '600'};

/** {"batch": 8} of "batch=8, seq=128"; an Error says which word is wrong. */
export function parseDims(text) {
  const words = text.split(/[\s,]+/).filter(Boolean);
  return Object.fromEntries(words.map(word => {
    const [, name, size] = /^([^=]+)=(\d+)$/.exec(word) ?? [];
    if (!name) throw new Error(`${word} is no size of a dimension; write it as batch=8`);
    return [name, Number(size)];
  }));
}

async function knownTargets(signal) {
  const boards = await api.all('boards', {}, signal).catch(() => []);
  return [...new Set(boards.flatMap(board => [board.target, ...(board.targets ?? []).map(also => also.target)]))].sort();
}

export async function show(view) {
  view.heading('Submit a model').textContent = 'A model goes in, a compiled module comes out. The same question is answered at once the next time.';
  const targets = await knownTargets(view.signal);
  const file = h('input', {type: 'file', required: true, accept: '.onnx,.tflite'});
  const target = h('select', {multiple: true, size: Math.min(6, Math.max(2, targets.length + 1))}, ['native', ...targets].map((one, index) => h('option', {value: one, selected: index === 0}, one === 'native' ? 'native: the server’s own processor' : targetName(one))));
  const amount = h('input', {type: 'number', min: '1', value: DEFAULT_BUDGET.trials});
  const amountField = field('How many', amount);
  const budget = choice(BUDGETS, 'trials', value => {
    amountField.hidden = value === 'none';
    amount.value = DEFAULT_BUDGET[value] ?? '';
  });
  const precision = choice(PRECISIONS, 'f32', () => {});
  const accuracy = h('input', {type: 'text', placeholder: '1e-4', inputmode: 'decimal'});
  const dims = h('input', {type: 'text', placeholder: 'batch=8'});
  const projects = view.me.projects ?? [];
  const project = choice(projects.length ? projects.map(one => [one.project, `${one.project}${one.role ? ` (${one.role})` : ''}`]) : [['', 'the default project']], projects[0]?.project ?? '', () => {});
  const wrong = h('p', {class: 'wrong', role: 'alert'});
  const status = h('div', {role: 'status'});
  const button = h('button', {type: 'submit', class: 'primary'}, 'Submit');

  const send = async () => {
    const [model] = file.files;
    const question = {
      name: model.name, targets: [...target.selectedOptions].map(option => option.value), precision: precision.value, project: project.value || undefined,
      budget: budget.value === 'none' ? {} : {[budget.value]: Number(amount.value)}, dims: parseDims(dims.value), ...(accuracy.value && {accuracy: Number(accuracy.value)}),
    };
    if (question.targets.length === 0) throw new Error('Choose at least one target.');
    const shown = progress(0, model.size, 'uploaded');
    status.replaceChildren(`Uploading ${bytes(model.size)} `, shown);
    question.model = await upload(model, done => {
      shown.value = done;
      shown.textContent = percent(done / model.size);
    }, view.signal);
    const answer = await api.post('compile', question, {signal: view.signal});
    location.hash = link(['compile', answer.id]);
  };
  view.body.append(card(null, h('form', {class: 'form', onsubmit: async event => {
    event.preventDefault();
    button.disabled = true;
    wrong.textContent = '';
    try {
      await send();
    } catch (error) {
      if (view.signal.aborted) return;
      wrong.textContent = error.message;
      status.replaceChildren();
      button.disabled = false;
    }
  }},
  field('Model', file, 'ONNX or TFLite, up to 2 GB'), field('Targets', target, 'with Ctrl several'), field('Budget of the search', budget), amountField,
  field('Precision', precision), field('Accuracy', accuracy, 'largest error of the outputs; empty: the default of the precision'), field('Sizes of open dimensions', dims), field('Project', project), wrong, status, button)));
}
