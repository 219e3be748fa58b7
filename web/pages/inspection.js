// What `kiln inspect --steps --json` says of a module (docs/reference/module.md), as views use it. Pure.

/** {module, steps, tensors, inputs, outputs, sizes} of the lines. */
export function inspectionOf(lines) {
  const of = event => lines.filter(one => one.event === event);
  return {module: of('module')[0] ?? {}, steps: of('step').map(step => ({...step})), tensors: of('tensor'), inputs: of('input'), outputs: of('output'), sizes: of('bucket')};
}

/** Layouts of a step in a few words: one where all are the same. */
export function layoutOf(step) {
  const parts = text => [...new Set((text ?? '').split(';').filter(Boolean))].join('; ');
  const [from, to] = [parts(step.layout_in), parts(step.layout_out)];
  return from === to || !from || !to ? from || to : `${from} → ${to}`;
}

/** Bytes of tensors of the callers, inputs and outputs, at each step. */
function portsOverTime(tensors, count) {
  const inUse = new Array(count).fill(0);
  for (const {kind, part_of: part, bytes, first, last} of tensors) {
    if (part !== null || first === null || !['input', 'output'].includes(kind)) continue;
    for (let step = first; step <= Math.min(last, count - 1); step++) inUse[step] += bytes;
  }
  return inUse;
}

/** Bytes at each step: {workspace, scratch, ports, constants}, and what the module reserves for the workspace. */
export function memoryOf({module, steps, tensors}) {
  return {
    workspace: steps.map(step => step.in_use + step.device_in_use),
    scratch: steps.map(step => step.scratch_bytes),
    ports: portsOverTime(tensors, steps.length),
    constants: steps.map(() => module.constant_bytes),
    reserved: module.arena_bytes + module.device_bytes,
  };
}

/** Each step's number -> numbers of the steps that read its results. */
export function readersOf(steps) {
  const readers = new Map(steps.map(step => [step.number, []]));
  for (const step of steps) for (const source of step.sources ?? []) readers.get(source)?.push(step.number);
  return readers;
}
