// A model in, targets and a budget: tuning jobs on the fleet, or a compiled module.
import * as api from '../api.js';
import {announce, choice, field, h} from '../dom.js';
import {bytes, percent, targetName} from '../format.js';
import {link} from '../router.js';
import {upload} from '../upload.js';
import {card, progress} from '../widgets.js';

const RESULTS = [['jobs', 'tuning: a job for each target'], ['compile', 'a compiled module for each target']];
const BUDGETS = [['none', 'none of its own'], ['trials', 'number of trials'], ['seconds', 'seconds']];
const WITHOUT_BUDGET = {jobs: 'none: 32 trials for each kernel', compile: 'none: the best stored schedules, at once'};
const PRECISIONS = [['f32', 'f32'], ['auto', 'any that the accuracy allows'], ['bf16', 'bf16'], ['f16', 'f16'], ['int8', 'int8, of quantised models']];
const DEFAULT_BUDGET = {trials: '1000', seconds: '600'};
const PRIORITY_MAX = 100;

/** {"batch": 8} of "batch=8, seq=128"; an Error says which word is wrong. */
export function parseDims(text) {
  const words = text.split(/[\s,]+/).filter(Boolean);
  return Object.fromEntries(words.map(word => {
    const [, name, size] = /^([^=]+)=(\d+)$/.exec(word) ?? [];
    if (!name) throw new Error(`${word} is no size of a dimension; write it as batch=8`);
    return [name, Number(size)];
  }));
}

/** The text as the SHA-256 of a model; an Error where it is none. */
export function parseDigest(text) {
  const digest = text.trim().toLowerCase();
  if (!/^[0-9a-f]{64}$/.test(digest)) throw new Error('A SHA-256 has 64 hexadecimal digits; sha256sum prints it.');
  return digest;
}

/** The body of POST jobs for one target. */
export function jobQuestion({model, name, target, budget, project, priority, dims, precision, accuracy}) {
  return {
    model, target, ...budget, ...(name && {name}), ...(project && {project}), ...(priority && {priority}), ...(accuracy && {accuracy}),
    ...(precision !== 'f32' && {precision}), dims: Object.entries(dims).map(([dim, size]) => `${dim}=${size}`),
  };
}

async function knownTargets(signal) {
  const boards = await api.all('boards', {}, signal).catch(() => []);
  return [...new Set(boards.flatMap(board => [board.target, ...(board.targets ?? []).map(also => also.target)]))].sort();
}

/** The fields and what they say; `ask()` gives a question without its model, or throws an Error in words. */
async function makeForm(view) {
  const targets = await knownTargets(view.signal);
  const projects = view.me.projects ?? [];
  const file = h('input', {type: 'file', accept: '.onnx,.tflite'});
  const digest = h('input', {type: 'text', autocomplete: 'off', spellcheck: 'false'});
  const name = h('input', {type: 'text', maxlength: '256', autocomplete: 'off'});
  const target = h('select', {multiple: true, size: Math.min(6, Math.max(2, targets.length + 1))}, ['native', ...targets].map((one, index) => h('option', {value: one, selected: index === 0}, one === 'native' ? 'native: the server’s own processor' : targetName(one))));
  const amount = h('input', {type: 'number', min: '1', value: DEFAULT_BUDGET.trials});
  const amountField = field('How many', amount);
  const budget = choice(BUDGETS, 'trials', value => {
    amountField.hidden = value === 'none';
    amount.value = DEFAULT_BUDGET[value] ?? '';
  });
  const priority = h('input', {type: 'number', min: '0', max: String(PRIORITY_MAX), value: '0'});
  const priorityField = field('Priority', priority, '0 to 100; higher goes first within the project');
  const showResult = value => {
    priorityField.hidden = value !== 'jobs';
    budget.options[0].textContent = WITHOUT_BUDGET[value];
  };
  const result = choice(RESULTS, 'jobs', showResult);
  showResult('jobs');
  const precision = choice(PRECISIONS, 'f32', () => {});
  const accuracy = h('input', {type: 'text', placeholder: '1e-4', inputmode: 'decimal'});
  const dims = h('input', {type: 'text', placeholder: 'batch=8'});
  const project = choice(projects.length ? projects.map(one => [one.project, `${one.project}${one.role ? ` (${one.role})` : ''}`]) : [['', 'the default project']], projects[0]?.project ?? '', () => {});
  const ask = () => {
    const [model] = file.files;
    if (!model && !digest.value.trim()) throw new Error('Choose a model file, or give the SHA-256 of a model that you sent before.');
    if (model && digest.value.trim()) throw new Error('Choose a model file or give a SHA-256, not both.');
    const chosen = [...target.selectedOptions].map(option => option.value);
    if (chosen.length === 0) throw new Error('Choose at least one target.');
    return {
      isJob: result.value === 'jobs', file: model, digest: model ? null : parseDigest(digest.value), name: name.value.trim() || model?.name, targets: chosen, project: project.value || undefined,
      budget: budget.value === 'none' ? {} : {[budget.value]: Number(amount.value)}, priority: Number(priority.value), dims: parseDims(dims.value), precision: precision.value, accuracy: accuracy.value.trim(),
    };
  };
  const fields = [
    field('Result', result), field('Model', file, 'ONNX or TFLite, up to 2 GB'), field('or the SHA-256 of a model sent before', digest), field('Name in lists', name, 'empty: that of the file'),
    field('Targets', target, 'hold Ctrl to choose several'), field('Budget of the search', budget), amountField, field('Project', project), priorityField,
    field('Precision', precision), field('Accuracy', accuracy, 'largest error of the outputs; empty: the default of the precision'), field('Sizes of open dimensions', dims),
  ];
  return {ask, fields};
}

/** Brings the model to the server, and shows how much of it is there. Gives its SHA-256. */
async function bring(question, sending, signal) {
  if (!question.file) return question.digest;
  const {file} = question;
  const shown = progress(0, file.size, 'uploaded');
  const words = h('span', {}, `Uploading ${bytes(file.size)} `);
  sending.replaceChildren(words, shown);
  const model = await upload(file, done => {
    shown.value = done;
    words.textContent = `Uploaded ${bytes(done)} of ${bytes(file.size)}, ${percent(done / file.size)} `;
  }, signal);
  sending.replaceChildren();
  announce('The model is uploaded.');
  return model;
}

/** Opens a job for each target. One that is refused keeps no other from being opened. */
async function openJobs(question, model, status, signal) {
  const opened = [];
  const refused = [];
  for (const target of question.targets) {
    status.replaceChildren(`Opening the job for ${targetName(target)}; the server reads the model first.`);
    try {
      opened.push({target, row: await api.post('jobs', jobQuestion({...question, model, target}), {signal})});
    } catch (error) {
      if (signal.aborted) throw error;
      refused.push(`${targetName(target)}: ${error.message}`);
    }
  }
  if (refused.length === 0 && opened.length === 1) {
    location.hash = link(['jobs', opened[0].row.job]);
    return;
  }
  status.replaceChildren(opened.length ? h('p', {}, `${opened.length} of ${question.targets.length} jobs are open:`) : '', h('ul', {}, opened.map(({target, row}) => h('li', {}, h('a', {href: link(['jobs', row.job])}, `${row.model_name || row.job} for ${targetName(target)}`)))));
  if (refused.length) throw new Error(refused.join('\n'));
}

async function compile(question, model, signal) {
  const {name, targets, precision, project, budget, dims, accuracy} = question;
  const answer = await api.post('compile', {model, name, targets, precision, project, budget, dims, ...(accuracy && {accuracy: Number(accuracy)})}, {signal});
  location.hash = link(['compile', answer.id]);
}

export async function show(view) {
  view.heading('Submit a model').textContent = 'The fleet searches fast schedules for it, or the server compiles it with the best that are stored. The same module is answered at once the next time.';
  const {ask, fields} = await makeForm(view);
  const wrong = h('p', {class: 'wrong', role: 'alert'});
  const sending = h('div', {class: 'sending'}); // not read aloud at every piece
  const status = h('div', {role: 'status'});
  const button = h('button', {type: 'submit', class: 'primary'}, 'Submit');
  const send = async () => {
    const question = ask();
    const model = await bring(question, sending, view.signal);
    if (question.isJob) await openJobs(question, model, status, view.signal);
    else await compile(question, model, view.signal);
  };
  view.body.append(card(null, h('form', {class: 'form', onsubmit: async event => {
    event.preventDefault();
    button.disabled = true;
    wrong.textContent = '';
    status.replaceChildren();
    try {
      await send();
    } catch (error) {
      if (view.signal.aborted) return;
      wrong.textContent = error.message;
      sending.replaceChildren();
      if (!status.querySelector('a')) status.replaceChildren();
    }
    button.disabled = false;
  }}, fields, wrong, sending, status, button)));
}
