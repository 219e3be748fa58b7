// A module: its graph with kernels coloured by time, their layouts and algorithms, and memory over a run.
import * as api from '../api.js';
import {Figure} from '../chart/figure.js';
import {graph} from '../chart/graph.js';
import {memoryOverTime} from '../chart/layers.js';
import {steps as staircase} from '../chart/steps.js';
import {h} from '../dom.js';
import {bytes, count, percent, shortId, shortKey, time} from '../format.js';
import {link} from '../router.js';
import {Table} from '../table.js';
import {card, facts, Figures, missing, targetText} from '../widgets.js';

const taskLink = (module, step) => (step.task ? h('a', {href: link(['tasks', step.task], {target: module.metadata?.target})}, shortKey(step.task)) : '');

const columns = module => [
  {name: 'step', title: 'Step', numeric: true, value: step => step.number},
  {name: 'name', title: 'Name', value: step => step.name},
  {name: 'op', title: 'Operators', value: step => step.op},
  {name: 'time', title: 'Time', numeric: true, value: step => step.median_ns, cell: step => time(step.median_ns)},
  {name: 'share', title: 'Share', numeric: true, value: step => step.share, cell: step => percent(step.share, 1)},
  {name: 'algorithm', title: 'Algorithm', value: step => step.algorithm},
  {name: 'in', title: 'Layout in', value: step => step.layout_in, cell: step => h('code', {}, step.layout_in ?? '')},
  {name: 'out', title: 'Layout out', value: step => step.layout_out, cell: step => h('code', {}, step.layout_out ?? '')},
  {name: 'task', title: 'Task', value: step => step.task, cell: step => taskLink(module, step)},
];

/** Times of steps from the best records of their tasks, where the module itself has none. */
async function addTimes(view, module, steps) {
  if (steps.some(step => step.median_ns > 0)) return;
  const found = await api.optional(api.get('records/best', {target: module.metadata?.target, limit: 1000}, view.signal)).catch(() => null);
  const best = new Map((found?.items ?? []).map(row => [row.task_key, row]));
  for (const step of steps) {
    const row = best.get(step.task);
    if (!row) continue;
    step.median_ns = row.median_ns;
    step.layout_in ??= row.layout_in;
    step.layout_out ??= row.layout_out;
  }
}

/** The model's name; one that came without a name is called by its digest. */
function titleOf(module, digest) {
  const name = module.metadata?.model;
  return name ? (shortId(name) === name ? name : `Model ${shortId(name)}`) : `Module ${shortId(digest)}`;
}

export async function show(view) {
  const [digest] = view.parameters;
  const download = name => h('a', {class: 'button primary', href: api.address(`modules/${encodeURIComponent(digest)}`), download: `${name}.kiln`}, 'Download');
  const inspected = await api.optional(api.get(`modules/${encodeURIComponent(digest)}/inspect`, {}, view.signal));
  if (!inspected) {
    view.heading(`Module ${shortId(digest)}`, download('module'));
    view.body.append(missing('This server does not look into modules. Download it, and run: kiln inspect MODULE --steps'));
    return;
  }
  const lines = inspected.items ?? inspected;
  const of = event => lines.filter(one => one.event === event);
  const module = of('module')[0] ?? {};
  const steps = of('step').map((step, index) => ({...step, number: index + 1}));
  await addTimes(view, module, steps);
  const total = steps.reduce((sum, step) => sum + (step.median_ns ?? 0), 0);
  for (const step of steps) step.share = total && step.median_ns ? step.median_ns / total : undefined;
  const hottest = Math.max(...steps.map(step => step.share ?? 0)) || 1;

  const lead = view.heading(titleOf(module, digest), download(module.metadata?.model ?? 'module'));
  lead.append('For ', targetText(module.metadata?.target));
  const numbers = new Figures();
  numbers.set([
    {label: 'Time of its kernels', value: time(total), note: 'sum of the best records'},
    {label: 'Kernels', value: count(module.kernels), note: `${count(module.steps ?? steps.length)} steps`},
    {label: 'Tuned tasks', value: `${module.metadata?.tuned ?? '–'} of ${module.metadata?.tasks ?? '–'}`},
    {label: 'Working memory', value: bytes(module.arena_bytes)}, {label: 'Constants', value: bytes(module.constant_bytes)}, {label: 'File', value: bytes(module.bytes)},
  ]);
  const knowsEdges = steps.some(step => step.inputs?.length);
  const picture = new Figure({
    title: 'Graph', empty: 'This module has no steps.', note: `Colour: share of the time, from cool to hot.${knowsEdges ? '' : ' The module does not say which step feeds which, so its steps stand in the order of execution.'}`,
    draw: width => graph({width, nodes: steps.map(step => ({id: step.number, name: `${step.number}  ${step.name}`, detail: [step.algorithm || step.op, time(step.median_ns)].filter(Boolean).join(' · '), text: `${step.op}, ${time(step.median_ns)}`, share: step.share === undefined ? undefined : step.share / hottest, inputs: step.inputs, outputs: step.outputs})), onPick: node => {
      const step = steps[node.id - 1];
      if (step.task) location.hash = link(['tasks', step.task], {target: module.metadata?.target});
    }}),
    text: () => `${count(steps.length)} steps. ${[...steps].filter(step => step.share).sort((a, b) => b.share - a.share).slice(0, 3).map(step => `${step.name} takes ${percent(step.share)}`).join('; ')}.`,
    table: () => ({names: ['step', 'name', 'op', 'median_ns', 'algorithm'], rows: steps.map(step => [step.number, step.name, step.op, step.median_ns, step.algorithm])}),
  });
  const tensors = of('tensor').filter(tensor => tensor.kind === 'arena');
  const memory = tensors.length ? memoryFigure(module, tensors, steps.length).element : card('Memory over a run', missing('The server does not say when each tensor of this module is in use.'));
  const table = new Table(columns(module), {caption: 'Steps', key: step => step.number, sort: {name: 'step', descending: false}});
  view.body.append(numbers.element, h('div', {class: 'grid wide-left'}, h('div', {class: 'scroll-x'}, picture.element), h('div', {}, memory, card('About', facts([
    ['Digest', digest], ['Target', module.metadata?.target], ['Made by', module.metadata?.software], ['Code generator', module.metadata?.codegen], ['Signature', module.signature], ['Threads', module.threads],
    ...of('input').map(one => [`Input ${one.name}`, `${one.dtype} ${one.shape?.join(' × ')}`]), ...of('output').map(one => [`Output ${one.name}`, `${one.dtype} ${one.shape?.join(' × ')}`]),
  ])))), h('section', {class: 'card'}, h('h2', {}, 'Steps'), table.element));
  table.set(steps);
}

function memoryFigure(module, tensors, count) {
  const values = memoryOverTime(tensors, count);
  return new Figure({
    title: 'Memory over a run', height: 220, note: 'Bytes of tensors in use at each step, and what the module reserves.',
    draw: (width, height) => staircase({width, height, values, format: bytes, mark: module.arena_bytes ? {value: module.arena_bytes, text: `reserved ${bytes(module.arena_bytes)}`} : null}),
    text: () => `At most ${bytes(Math.max(...values))} in use of ${bytes(module.arena_bytes)} reserved.`,
    table: () => ({names: ['step', 'bytes'], rows: values.map((value, step) => [step + 1, value])}),
  });
}
