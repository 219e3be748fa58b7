// Loads and runs modules that `kiln compile --target wasm` made, in browsers and in node.
import {instantiate} from './kernel.js';
import {chooseBucket, copyRows, countOf, shapeIn, sizeOf} from './sizes.js';
import {canShare, Team} from './threads.js';
import {DataLoss, FailedPrecondition, InvalidArgument, Internal, NotFound, OutOfRange, ResourceExhausted, Unavailable, Unimplemented} from './errors.js';

export * from './errors.js';

/** The newest form of the section kiln.plan that is understood (deploy/pack/wasm_module.h). */
const VERSION = 2;

/** Which word of kiln_kernel_services is the number of threads (base/kernel_abi.h). */
const WORKERS = 1;

/** How the elements of a port lie in memory. Halves and smaller floats are their bits. */
const ARRAY = {
  f32: Float32Array, f64: Float64Array, f16: Uint16Array, bf16: Uint16Array,
  i8: Int8Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
  u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array, bool: Uint8Array,
  f8e4m3fn: Uint8Array, f8e4m3fnuz: Uint8Array, f8e5m2: Uint8Array, f8e5m2fnuz: Uint8Array, f8e8m0: Uint8Array, f4e2m1: Uint8Array,
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
  plan.buckets ??= [{inputs: plan.inputs, outputs: plan.outputs, begin: 0, end: plan.steps.length}];
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
 * Loads a module: everything slow happens here. `source`: a URL, in node also a path, a Response, or the bytes.
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
  #bucket; // that runs
  #size; // that is set; undefined where the module has one size
  #inputs = new Map(); // of the size that is set: {port, own: of the bucket, array}
  #outputs = new Map();
  #iteration = []; // by the step of its loop; behind the loop how many there were
  #steps;
  #team;

  constructor(plan, memory, kernels, threads, team) {
    this.#plan = plan;
    this.#team = team;
    this.#memory = memory;
    this.#kernels = kernels;
    this.#words = new Uint32Array(memory.buffer);
    this.#bytes = new Uint8Array(memory.buffer);
    for (const call of plan.prepare) this.#function(call)();
    this.#steps = plan.steps.map((step, index) => this.#compile(step, index));
    /** The number of threads that it runs on. */
    this.threads = threads;
    /** "model", "target", "codegen" by name. */
    this.metadata = Object.freeze(plan.metadata);
    /** The sizes that it takes; undefined: it has one. */
    this.sizes = plan.dim && Object.freeze({
      dim: plan.dim, min: plan.by_rows ? 1 : plan.buckets[0].size, max: plan.buckets.at(-1).size, takesAll: plan.by_rows,
      buckets: Object.freeze(plan.buckets.map(({size}) => size)),
    });
    this.#take(plan.buckets.at(-1), plan.buckets.at(-1).size);
  }

  /** From here on runs are of this size. */
  #take(bucket, size) {
    this.#bucket = bucket;
    this.#size = size;
    /** Its inputs and outputs in that size: `{name, dtype, shape}` each. */
    this.inputs = this.#bind(this.#inputs, bucket.inputs);
    this.outputs = this.#bind(this.#outputs, bucket.outputs);
    /** The steps of a run, in order: `{action, name, op, task, flops}`. */
    const own = this.#plan.steps.slice(bucket.begin, bucket.end);
    this.steps = Object.freeze(own.map(({action, name, op, task, flops = 0}) => ({action, name, op, task, flops})));
  }

  /** Ports in the size that is set: in the bucket's own memory where it has that size, and where the port is alike in all. */
  #bind(ports, planned) {
    ports.clear();
    for (const port of planned) {
      const own = this.#view(port), shape = shapeIn(port, this.#size);
      ports.set(port.name, {port: {...port, shape}, own, array: countOf(shape) === own.length ? own : new ARRAY[port.dtype](countOf(shape))});
    }
    return Object.freeze([...ports.values()].map(({port: {name, dtype, shape}}) => Object.freeze({name, dtype, shape})));
  }

  /** Sets the size of later calls: ports get its shapes, and arrays that `input` and `output` returned before are no longer theirs. */
  setSize(size) {
    this.#check();
    if (!this.sizes) throw new InvalidArgument('the module has one size only');
    const bucket = chooseBucket(this.#plan, size), {dim, max, takesAll, buckets} = this.sizes;
    if (!bucket || !Number.isInteger(size))
      throw new OutOfRange(`${dim} is ${size}; the module takes ${takesAll ? `1 to ${max}` : buckets.join(', ')}`);
    if (size !== this.#size) this.#take(bucket, size);
  }

  #check() {
    if (!this.#memory) throw new FailedPrecondition('the module is closed');
  }

  #view({address, dtype, shape}) {
    return new ARRAY[dtype](this.#memory.buffer, address, countOf(shape));
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
    let i = 0;
    for (; i < count && (!step.condition || this.#bytes[this.#at(step.condition)]); i++) {
      if (i === step.trips)
        throw new OutOfRange(`the loop ${step.name} runs more than ${step.trips} times; compile with a larger --loop-max`);
      this.#iteration[index] = i;
      if (step.index) element(step.index)[0] = BigInt(i);
      this.#runSteps(index + 1, index + 1 + step.body);
    }
    this.#iteration[index] = i;
  }

  #runSteps(from, to) {
    for (let i = from; i < to; i++) {
      this.#steps[i]();
      i += this.#plan.steps[i].body || 0;
    }
  }

  #port(ports, name, what) {
    this.#check();
    const found = ports.get(name);
    if (found) return found;
    const known = [...ports.values()].map(({port}) => describe(port)).join(', ');
    throw new InvalidArgument(`the module has no ${what} ${name}; it has ${known}`);
  }

  /** The module's own memory of an input: the next `call` reads the values written there, without a copy. */
  input(name) {
    return this.#port(this.#inputs, name, 'input').array;
  }

  /** The module's own memory of an output, which the next `call` overwrites. */
  output(name) {
    return this.#port(this.#outputs, name, 'output').array;
  }

  /** How many rows (of its first dimension) the last call gave an output: fewer than its shape says where only the run knows. */
  rows(name) {
    const {port} = this.#port(this.#outputs, name, 'output');
    return port.rows === undefined ? port.shape[0] ?? 1 : this.#iteration[port.rows] ?? 0;
  }

  /** Of an output: as many elements as its rows have. */
  #lengthOf({port, array}) {
    return port.rows === undefined ? array.length : array.length / port.shape[0] * this.rows(port.name);
  }

  /** The bucket once, in its own memory; zeros stand behind the rows of outputs whose number the run decides. */
  #runBucket() {
    this.#runSteps(this.#bucket.begin, this.#bucket.end);
    for (const output of this.#outputs.values()) {
      const {port, own} = output, bytes = own.BYTES_PER_ELEMENT;
      if (port.rows !== undefined) this.#bytes.fill(0, own.byteOffset + this.#lengthOf(output) * bytes, own.byteOffset + own.byteLength);
    }
  }

  /** As many runs of the bucket as the size needs, the last one padded with zeros. */
  #runParts() {
    const most = this.#bucket.size, size = this.#size;
    for (let first = 0; first < size; first += most) {
      const count = Math.min(most, size - first);
      for (const {port, own, array} of this.#inputs.values()) {
        if (own === array) continue;
        if (count < most) this.#bytes.fill(0, own.byteOffset, own.byteOffset + own.byteLength);
        copyRows(port, array, size, first, own, most, 0, count);
      }
      this.#runBucket();
      for (const {port, own, array} of this.#outputs.values()) if (own !== array) copyRows(port, own, most, 0, array, size, first, count);
    }
  }

  /** Runs once, from `input(name)` to `output(name)`. */
  call() {
    this.#check();
    if (this.#size === this.#bucket.size) this.#runBucket();
    else this.#runParts();
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

  /** The size of the given inputs, by the first one that has the dimension; undefined: none does. */
  #sizeOf(inputs) {
    const {buckets} = this.#plan, given = buckets[0].inputs.findIndex(({name, axis}) => axis !== undefined && inputs[name]?.length);
    if (given >= 0) return sizeOf(buckets[0].inputs[given], inputs[buckets[0].inputs[given].name].length);
    const fits = bucket => bucket.inputs.every(({name, shape}) => inputs[name]?.length === countOf(shape));
    return buckets.find(fits)?.size;
  }

  /** Copies the inputs, runs, and gives copies of the outputs: `{name: array}` each. Of several sizes it takes that of the inputs. */
  async run(inputs) {
    for (const [name, {port}] of this.#inputs)
      if (!Object.hasOwn(inputs, name)) throw new InvalidArgument(`the input ${describe(port)} is missing`);
    const size = this.sizes && this.#sizeOf(inputs);
    if (size !== undefined) this.setSize(size);
    for (const name of Object.keys(inputs)) this.#set(name, inputs[name]);
    this.call();
    const outputs = {};
    for (const [name, output] of this.#outputs) outputs[name] = output.array.slice(0, this.#lengthOf(output));
    return outputs;
  }

  /** Runs `times` times as `call` and gives milliseconds of a run by step: `[{name, op, action, ms}]`. */
  profile(times = 1) {
    this.#check();
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
    return this.steps.map(({name, op, action}, index) => ({name, op, action, ms: total[this.#bucket.begin + index] / times}));
  }

  /** Ends its workers and frees its memory. Arrays that `input` and `output` returned must not be used afterwards. */
  close() {
    this.#team?.close();
    this.#memory = this.#words = this.#bytes = this.#kernels = undefined;
    this.#steps = [];
    this.#inputs.clear();
    this.#outputs.clear();
  }
}
