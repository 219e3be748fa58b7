// Loads and runs modules that `kiln compile --target wasm` made, in browsers and in node.
import {instantiate} from './kernel.js';
import {canShare, Team} from './threads.js';
import {DataLoss, FailedPrecondition, InvalidArgument, Internal, NotFound, OutOfRange, ResourceExhausted, Unavailable, Unimplemented} from './errors.js';

export * from './errors.js';

/** The newest form of the section kiln.plan that is understood (deploy/pack/wasm_module.h). */
const VERSION = 1;

/** Which word of kiln_kernel_services is the number of threads (base/kernel_abi.h). */
const WORKERS = 1;

/** How the elements of a port lie in memory. Halves are their bits. */
const ARRAY = {
  f32: Float32Array, f64: Float64Array, f16: Uint16Array, bf16: Uint16Array,
  i8: Int8Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
  u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array, bool: Uint8Array,
};

const isNode = typeof process === 'object' && Boolean(process.versions?.node);

async function readFile(source) {
  const {readFile} = await import('node:fs/promises');
  try {
    return await readFile(source);
  } catch (error) {
    throw new NotFound(`${source} cannot be read: ${error.message}`);
  }
}

async function fetchBytes(source) {
  let response = source;
  if (!(source instanceof Response)) {
    try {
      response = await fetch(source);
    } catch (error) {
      throw new Unavailable(`${source} cannot be fetched: ${error.message}`);
    }
  }
  if (!response.ok) throw new NotFound(`${response.url || source}: the server answers ${response.status}`);
  return response.arrayBuffer();
}

async function bytesOf(source) {
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return source;
  if (typeof Response === 'function' && source instanceof Response) return fetchBytes(source);
  if (typeof source !== 'string' && !(source instanceof URL))
    throw new InvalidArgument('a module is a URL, a path, a Response or bytes');
  const remote = /^(https?|data|blob):/.test(String(source));
  return isNode && !remote ? readFile(source) : fetchBytes(source);
}

function describe(port) {
  return `${port.name}: ${port.dtype}[${port.shape}]`;
}

async function compile(bytes, what) {
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    throw new DataLoss(`${what} is damaged, or has instructions that this engine lacks: ${error.message}`);
  }
}

function parsePlan(text) {
  try {
    return JSON.parse(new TextDecoder().decode(text));
  } catch (error) {
    throw new DataLoss(`the module is damaged: ${error.message}`);
  }
}

function planOf(module) {
  const [text] = WebAssembly.Module.customSections(module, 'kiln.plan');
  if (!text) throw new InvalidArgument('this WebAssembly is no module of Kiln: it has no section kiln.plan');
  const plan = parsePlan(text);
  if (plan.version > VERSION)
    throw new Unimplemented(`the module's form is ${plan.version}, this package reads up to ${VERSION}: use a newer package`);
  return plan;
}

/** The memory of a module, with its weights in place. */
async function memoryOf(module) {
  try {
    return (await WebAssembly.instantiate(module)).exports.memory;
  } catch (error) {
    throw new ResourceExhausted(`the engine does not give the memory that the module needs: ${error.message}`);
  }
}

/** Threads that a module runs on: as many as it was compiled for, where memory can be shared. */
function threadsOf(plan, wanted = plan.threads) {
  if (!Number.isInteger(wanted) || wanted < 1) throw new InvalidArgument(`threads are a number from 1 on, not ${wanted}`);
  return canShare ? Math.min(wanted, plan.threads) : 1;
}

/** All kernels over one memory, and the workers that run their loops; what was begun ends where one of them fails. */
async function instantiateAll(modules, memory, plan, threads) {
  let team;
  try {
    if (threads > 1) team = await Team.create(threads, modules, memory, plan.stack);
    const kernels = await Promise.all(modules.map((module, index) => instantiate(module, memory, plan.stack, team?.loopsOf(index))));
    return {kernels, team};
  } catch (error) {
    team?.close();
    throw new Unimplemented(error.message);
  }
}

/**
 * Loads a module: all that is slow happens here. `source`: a URL, in node also a path, a Response, or the bytes.
 * `options.threads`: at most so many; as many as the module was compiled for, unless the page may not share memory.
 */
export async function load(source, options = {}) {
  const bytes = await bytesOf(source);
  const head = new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, Math.min(8, bytes.byteLength));
  if (String.fromCharCode(...head.subarray(0, 7)) === 'KILNMOD')
    throw new FailedPrecondition('this module is for another machine: compile the model with --target wasm');
  const module = await compile(bytes, 'the module');
  const plan = planOf(module);
  const memory = await memoryOf(module), codes = WebAssembly.Module.customSections(module, 'kiln.kernel');
  const modules = await Promise.all(codes.map((code, index) => compile(code, `kernel ${index}`)));
  const threads = threadsOf(plan, options.threads);
  new Uint32Array(memory.buffer)[plan.services / 4 + WORKERS] = threads;
  const {kernels, team} = await instantiateAll(modules, memory, plan, threads);
  return new Module(plan, memory, kernels, threads, team);
}

/** A module that is loaded; `load` makes it. */
class Module {
  #plan;
  #memory;
  #kernels;
  #words;
  #bytes;
  #inputs = new Map();
  #outputs = new Map();
  #iteration = []; // by the step of its loop
  #steps;
  #team;

  constructor(plan, memory, kernels, threads, team) {
    this.#plan = plan;
    this.#team = team;
    this.#memory = memory;
    this.#kernels = kernels;
    this.#words = new Uint32Array(memory.buffer);
    this.#bytes = new Uint8Array(memory.buffer);
    for (const port of plan.inputs) this.#inputs.set(port.name, {port, array: this.#view(port)});
    for (const port of plan.outputs) this.#outputs.set(port.name, {port, array: this.#view(port)});
    for (const call of plan.prepare) this.#function(call)();
    this.#steps = plan.steps.map((step, index) => this.#compile(step, index));
    const ports = list => Object.freeze(list.map(({name, dtype, shape}) => Object.freeze({name, dtype, shape})));
    /** What it takes and gives: `{name, dtype, shape}` each. */
    this.inputs = ports(plan.inputs);
    this.outputs = ports(plan.outputs);
    /** That it runs on. */
    this.threads = threads;
    /** "model", "target", "codegen" by name. */
    this.metadata = Object.freeze(plan.metadata);
    /** What a run does, in order: `{action, name, op, task, flops}`. */
    this.steps = Object.freeze(plan.steps.map(({action, name, op, task, flops = 0}) => ({action, name, op, task, flops})));
  }

  #view({address, dtype, shape}) {
    return new ARRAY[dtype](this.#memory.buffer, address, shape.reduce((a, b) => a * b, 1));
  }

  #function([kernel, entry, args]) {
    const run = this.#kernels[kernel].exports[entry], services = this.#plan.services;
    return () => {
      const status = run(args, services);
      if (status !== 0) throw new Internal(`kernel ${kernel} failed with status ${status}`);
    };
  }

  /** Address of [base, bytes per iteration, loop]. */
  #at([base, stride, loop]) {
    return stride ? base + stride * this.#iteration[loop] : base;
  }

  /** A step as a function; of a loop: with its body. */
  #compile(step, index) {
    switch (step.action) {
      case 'alias': return () => {};
      case 'copy': return () => {
        const from = this.#at(step.from);
        this.#bytes.copyWithin(this.#at(step.to), from, from + step.bytes);
      };
      case 'kernel': {
        const calls = step.calls.map(call => this.#function(call)), moves = step.moves || [];
        return () => {
          for (const [where, ...place] of moves) this.#words[where >> 2] = this.#at(place);
          for (const call of calls) call();
        };
      }
      case 'loop': return () => this.#loop(step, index);
      default: throw new DataLoss(`step ${index} is a ${step.action}`);
    }
  }

  #loop(step, index) {
    const element = place => new BigInt64Array(this.#memory.buffer, this.#at(place), 1);
    const count = step.count ? element(step.count)[0] : BigInt(step.trips);
    for (let i = 0; i < count && (!step.condition || this.#bytes[this.#at(step.condition)]); i++) {
      if (i === step.trips)
        throw new OutOfRange(`the loop ${step.name} runs more than ${step.trips} times; compile with a larger --loop-max`);
      this.#iteration[index] = i;
      if (step.index) element(step.index)[0] = BigInt(i);
      this.#runSteps(index + 1, index + 1 + step.body);
    }
  }

  #runSteps(from, to) {
    for (let i = from; i < to; i++) {
      this.#steps[i]();
      i += this.#plan.steps[i].body || 0;
    }
  }

  #port(ports, name, what) {
    if (!this.#memory) throw new FailedPrecondition('the module is closed');
    const found = ports.get(name);
    if (found) return found;
    const known = [...ports.values()].map(({port}) => describe(port)).join(', ');
    throw new InvalidArgument(`the module has no ${what} ${name}; it has ${known}`);
  }

  /** The module's own memory of an input: what is written there is what the next `call` reads, without a copy. */
  input(name) {
    return this.#port(this.#inputs, name, 'input').array;
  }

  /** The module's own memory of an output, which the next `call` overwrites. */
  output(name) {
    return this.#port(this.#outputs, name, 'output').array;
  }

  /** Runs once, from `input(name)` to `output(name)`. */
  call() {
    if (!this.#memory) throw new FailedPrecondition('the module is closed');
    this.#runSteps(0, this.#steps.length);
  }

  #set(name, value) {
    const {port, array} = this.#port(this.#inputs, name, 'input');
    if (value === array) return;
    if (!(value instanceof array.constructor)) {
      const found = value?.constructor?.name ?? typeof value;
      throw new InvalidArgument(`the input ${describe(port)} is a ${array.constructor.name}, not ${found}`);
    }
    if (value.length !== array.length)
      throw new InvalidArgument(`the input ${describe(port)} has ${array.length} elements, not ${value.length}`);
    array.set(value);
  }

  /** Copies the inputs, runs, and gives copies of the outputs: `{name: array}` each. */
  async run(inputs) {
    for (const [name, {port}] of this.#inputs)
      if (!Object.hasOwn(inputs, name)) throw new InvalidArgument(`the input ${describe(port)} is missing`);
    for (const name of Object.keys(inputs)) this.#set(name, inputs[name]);
    this.call();
    const outputs = {};
    for (const [name, {array}] of this.#outputs) outputs[name] = array.slice();
    return outputs;
  }

  /** Runs `times` times as `call` and gives milliseconds of a run by step: `[{name, op, action, ms}]`. */
  profile(times = 1) {
    if (!this.#memory) throw new FailedPrecondition('the module is closed');
    const own = this.#steps, total = own.map(() => 0);
    this.#steps = own.map((step, index) => () => {
      const start = performance.now();
      step();
      total[index] += performance.now() - start;
    });
    try {
      for (let i = 0; i < times; i++) this.call();
    } finally {
      this.#steps = own;
    }
    return this.steps.map(({name, op, action}, index) => ({name, op, action, ms: total[index] / times}));
  }

  /** Ends its workers and lets go of its memory. What `input` and `output` gave must not be used any more. */
  close() {
    this.#team?.close();
    this.#memory = this.#words = this.#bytes = this.#kernels = undefined;
    this.#steps = [];
    this.#inputs.clear();
    this.#outputs.clear();
  }
}
