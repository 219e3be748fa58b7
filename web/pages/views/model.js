// A module: its graph with kernels coloured by time, their layouts and algorithms, and memory over a run.
import * as api from '../api.js';
import {Figure} from '../chart/figure.js';
import {graph} from '../chart/graph.js';
import {steps as staircase} from '../chart/steps.js';
import {choice, field, h} from '../dom.js';
import {bytes, count, percent, shortId, shortKey, time} from '../format.js';
import {inspectionOf, layoutOf, memoryOf, readersOf} from '../inspection.js';
import {link, setQuery} from '../router.js';
import {Table} from '../table.js';
import {card, facts, Figures, missing, targetText} from '../widgets.js';

const STEPS_MAX = 1500; // that are drawn
const UNKNOWN = 'unknown';
const MEMORY = [['workspace', 'workspace'], ['all', 'all memory of a run']];

const taskAddress = (module, step) => link(['tasks', step.task], {target: module.metadata?.target});
const numbers = list => (list === null || list === undefined ? UNKNOWN : list.join(', '));

const stepColumns = (module, readers) => [
  {name: 'step', title: 'Step', numeric: true, value: step => step.number},
  {name: 'name', title: 'Name', value: step => step.name},
  {name: 'op', title: 'Operators', value: step => step.op},
  {name: 'time', title: 'Time', numeric: true, value: step => step.median_ns, cell: step => time(step.median_ns)},
  {name: 'share', title: 'Share', numeric: true, value: step => step.share, cell: step => percent(step.share, 1)},
  {name: 'algorithm', title: 'Algorithm', value: step => step.algorithm || step.action},
  {name: 'in', title: 'Layout in', value: step => step.layout_in, cell: step => h('code', {class: 'clip', title: step.layout_in}, step.layout_in)},
  {name: 'out', title: 'Layout out', value: step => step.layout_out, cell: step => h('code', {class: 'clip', title: step.layout_out}, step.layout_out)},
  {name: 'sources', title: 'Reads from steps', value: step => numbers(step.sources)},
  {name: 'readers', title: 'Read by steps', value: step => numbers(readers.get(step.number))},
  {name: 'loop', title: 'In loop', numeric: true, value: step => step.loop ?? undefined},
  {name: 'in_use', title: 'Workspace in use', numeric: true, value: step => step.in_use + step.device_in_use, cell: step => bytes(step.in_use + step.device_in_use)},
  {name: 'scratch', title: 'Its own memory', numeric: true, value: step => step.scratch_bytes, cell: step => bytes(step.scratch_bytes)},
  {name: 'task', title: 'Task', value: step => step.task, cell: step => (step.task ? h('a', {href: taskAddress(module, step)}, shortKey(step.task)) : '')},
];

const TENSOR_COLUMNS = [
  {name: 'buffer', title: 'Buffer', numeric: true, value: tensor => tensor.buffer},
  {name: 'kind', title: 'Kind', value: tensor => tensor.kind},
  {name: 'name', title: 'Name', value: tensor => tensor.name ?? UNKNOWN},
  {name: 'bytes', title: 'Bytes', numeric: true, value: tensor => tensor.bytes, cell: tensor => bytes(tensor.bytes)},
  {name: 'first', title: 'First step', numeric: true, value: tensor => tensor.first ?? undefined},
  {name: 'last', title: 'Last step', numeric: true, value: tensor => tensor.last ?? undefined},
  {name: 'offset', title: 'Place in the workspace', numeric: true, value: tensor => tensor.offset ?? undefined},
  {name: 'part_of', title: 'Part of buffer', numeric: true, value: tensor => tensor.part_of ?? undefined},
  {name: 'device', title: 'Device', numeric: true, value: tensor => tensor.device},
];

/** Times of steps: those of the best records of their tasks. */
async function addTimes(view, module, steps) {
  const found = await api.optional(api.get('records/best', {target: module.metadata?.target, limit: 1000}, view.signal)).catch(() => null);
  const best = new Map((found?.items ?? []).map(row => [row.task_key, row]));
  for (const step of steps) step.median_ns = best.get(step.task)?.median_ns;
  const total = steps.reduce((sum, step) => sum + (step.median_ns ?? 0), 0);
  for (const step of steps) step.share = total && step.median_ns ? step.median_ns / total : undefined;
  return total;
}

/** The model's name; one that came without a name is called by its digest. */
function titleOf(module, digest) {
  const name = module.metadata?.model;
  return name ? (shortId(name) === name ? name : `Model ${shortId(name)}`) : `Module ${shortId(digest)}`;
}

/** A step as a node: what is written in it, and all that is known of it. */
function nodeOf(step, hottest) {
  const layout = layoutOf(step);
  const does = step.action === 'carry' ? `carries to loop ${step.loop}` : step.algorithm || step.action;
  const where = [step.loop === null ? '' : `in loop ${step.loop}`, step.device ? `on device ${step.device}` : ''].filter(Boolean);
  return {
    id: step.number, sources: step.sources, share: step.share === undefined ? undefined : step.share / hottest, step, isLink: Boolean(step.task),
    lines: [`${step.number}  ${step.name}`, step.op, [step.median_ns ? time(step.median_ns) : '', does].filter(Boolean).join(' · '), layout || where.join(', ')],
    text: [`${step.number} ${step.name}: ${step.op}`, step.algorithm, step.median_ns ? `${time(step.median_ns)}, ${percent(step.share, 1)}` : '', layout, ...where, `reads from ${numbers(step.sources) || 'no step'}`].filter(Boolean).join(' · '),
  };
}

function graphFigure(module, steps) {
  const hottest = Math.max(...steps.map(step => step.share ?? 0)) || 1;
  const isKnown = steps.every(step => step.sources);
  const readers = readersOf(steps);
  const joins = steps.filter(step => step.sources?.length > 1).length;
  const branches = [...readers.values()].filter(list => list.length > 1).length;
  const top = steps.filter(step => step.share).sort((a, b) => b.share - a.share).slice(0, 3);
  return new Figure({
    title: 'Graph', scrolls: true, empty: steps.length ? `This module has ${count(steps.length)} steps with more lines between them than are drawn; the table below has them all.` : 'This module has no steps.',
    note: `${top.length ? 'Colour: share of the time by the best records, from cool to hot.' : 'No records of its tasks are known here, so the kernels have no colour.'} Time goes from top to bottom; a line leads from a step to each one that reads its result.${isKnown ? '' : ' Of some steps it is unknown which they read.'}`,
    draw: width => (steps.length > STEPS_MAX ? null : graph({width, nodes: steps.map(step => nodeOf(step, hottest)), onPick: ({step}) => step.task && (location.hash = taskAddress(module, step))})),
    text: () => `${count(steps.length)} steps; results of ${count(branches)} are read by several, ${count(joins)} read several results. ${top.map(step => `${step.name} takes ${percent(step.share)}`).join('; ')}${top.length ? '.' : ''} The table of steps says the same.`,
    table: () => ({names: ['step', 'name', 'op', 'median_ns', 'algorithm', 'layout_in', 'layout_out', 'sources'], rows: steps.map(step => [step.number, step.name, step.op, step.median_ns, step.algorithm, step.layout_in, step.layout_out, numbers(step.sources)])}),
  });
}

function memoryFigure(view, inspection) {
  const memory = memoryOf(inspection);
  const isAll = () => view.query.memory === 'all';
  const workspace = {name: 'workspace', tone: 'tone-1', values: memory.workspace};
  const all = [{name: 'constants', tone: 'tone-8', values: memory.constants}, {name: 'inputs, outputs', tone: 'tone-2', values: memory.ports}, workspace, {name: 'of kernels', tone: 'tone-5', values: memory.scratch}];
  const most = values => Math.max(0, ...values);
  return new Figure({
    title: 'Memory over a run', height: 240, empty: 'This module has no steps.',
    controls: h('div', {class: 'figure-controls'}, field('Show', choice(MEMORY, isAll() ? 'all' : 'workspace', value => setQuery({memory: value === 'all' ? 'all' : undefined})))),
    note: () => (isAll() ? `Constants (${bytes(inspection.module.constant_bytes)} in the file; packed copies of them come in addition), inputs and outputs, the workspace, and what each kernel needs for itself.`
      : `Bytes of the workspace in use at each step, and what the module reserves. Beside it: constants ${bytes(inspection.module.constant_bytes)}, at most ${bytes(most(memory.scratch))} of a kernel’s own.`),
    draw: (width, height) => staircase({width, height, series: isAll() ? all : [workspace], format: bytes, title: '', mark: !isAll() && memory.reserved ? {value: memory.reserved, text: `reserved ${bytes(memory.reserved)}`} : null}),
    text: () => `At most ${bytes(most(memory.workspace))} of the workspace are in use at once, of ${bytes(memory.reserved)} reserved; constants take ${bytes(inspection.module.constant_bytes)}, kernels at most ${bytes(most(memory.scratch))} for themselves.`,
    table: () => ({names: ['step', 'workspace', 'kernel', 'inputs and outputs', 'constants', 'reserved'], rows: memory.workspace.map((value, step) => [step, value, memory.scratch[step], memory.ports[step], memory.constants[step], memory.reserved])}),
  });
}

function about(digest, {module, inputs, outputs, sizes}) {
  const port = kind => one => [`${kind} ${one.name}`, `${one.dtype} ${one.shape?.join(' × ')}`];
  return card('About', facts([
    ['Digest', digest], ['Target', module.metadata?.target], ['Made by', module.metadata?.software], ['Code generator', module.metadata?.codegen], ['Signature', module.signature], ['Threads', module.threads],
    ...(sizes.length ? [[`Sizes of ${sizes[0].dim}`, `${sizes.map(one => one.size).join(', ')}; the largest is shown`]] : []), ...inputs.map(port('Input')), ...outputs.map(port('Output')),
  ]));
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
  const inspection = inspectionOf(inspected.items);
  const {module, steps, tensors} = inspection;
  const total = await addTimes(view, module, steps);
  const lead = view.heading(titleOf(module, digest), download(module.metadata?.model ?? 'module'));
  lead.append('For ', targetText(module.metadata?.target));
  const figures = new Figures();
  figures.set([
    {label: 'Time of its kernels', value: time(total), note: 'sum of the best records'},
    {label: 'Kernels', value: count(module.kernels), note: `${count(module.steps)} steps`},
    {label: 'Tuned tasks', value: `${module.metadata?.tuned ?? '–'} of ${module.metadata?.tasks ?? '–'}`},
    {label: 'Workspace', value: bytes(module.arena_bytes + module.device_bytes)}, {label: 'Constants', value: bytes(module.constant_bytes)}, {label: 'File', value: bytes(module.bytes)},
  ]);
  const memory = memoryFigure(view, inspection);
  const stepTable = new Table(stepColumns(module, readersOf(steps)), {caption: 'Steps', key: step => step.number, sort: {name: 'step', descending: false}});
  const tensorTable = new Table(TENSOR_COLUMNS, {caption: 'Buffers', key: tensor => tensor.buffer, sort: {name: 'buffer', descending: false}});
  view.body.append(figures.element, h('div', {class: 'grid wide-left'}, graphFigure(module, steps).element, h('div', {}, memory.element, about(digest, inspection))),
    h('section', {class: 'card'}, h('h2', {}, 'Steps'), stepTable.element), h('section', {class: 'card'}, h('h2', {}, 'Buffers'), tensorTable.element));
  stepTable.set(steps);
  tensorTable.set(tensors);
  view.onQuery = query => {
    view.query = query;
    memory.draw();
  };
}
