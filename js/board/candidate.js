// One candidate in a memory of its own: loaded, fed, called, and looked at for what it must not do.
import {instantiate} from '../kernel.js';
import {PHASE, ROLE, parseArtefact} from './artefact.js';
import {compare, countOf, inputSeed, makeInput, pack, typeOf, unpack} from './elements.js';

const PAGE_BYTES = 65536;
const STACK_BYTES = 65536;
// base/kernel_abi.h where pointers have 32 bits.
const ALIGNMENT = 64;
const TENSOR_BYTES = 40;
const SERVICES_BYTES = 20;
/** Between two pieces of memory, so that a kernel that writes behind one is seen. */
const BAND_BYTES = 256;
const BAND_BYTE = 0x5a;

/** A candidate's trial ends with this outcome (base/outcome.def) and text. */
export class Verdict extends Error {
  constructor(outcome, message, candidate) {
    super(message);
    Object.assign(this, {outcome, candidate});
  }
}

/** base/outcome.def. */
export const OUTCOME = {ok: 0, linkError: 2, wrongResult: 3, timeout: 4, crash: 5, infra: 7};

const align = place => Math.ceil(place / ALIGNMENT) * ALIGNMENT;

export class Candidate {
  #artefact;
  #memory;
  #bytes;
  #data; // addresses of the arguments
  #scratch;
  #services;
  #bands = [];
  #calls;
  #spoilt = [];

  constructor(artefactBytes) {
    try {
      this.#artefact = parseArtefact(artefactBytes);
    } catch (error) {
      throw new Verdict(OUTCOME.linkError, error.message, this);
    }
    this.#layOut();
  }

  #layOut() {
    const {args, launches, scratch, workerScratch} = this.#artefact;
    let used = STACK_BYTES;
    const place = size => {
      const at = align(used + BAND_BYTES);
      this.#bands.push([used, at]);
      used = at + size;
      return at;
    };
    this.#data = args.map(arg => place(arg.size));
    this.#scratch = {at: place(align(scratch) + align(workerScratch)), size: align(scratch) + align(workerScratch)};
    const tensors = args.map(() => place(TENSOR_BYTES)), lists = launches.map(launch => place(4 * launch.args.length));
    this.#services = place(SERVICES_BYTES);
    this.#memory = new WebAssembly.Memory({initial: Math.ceil((used + BAND_BYTES) / PAGE_BYTES)});
    this.#bytes = new Uint8Array(this.#memory.buffer);
    this.#bands.push([used, used + BAND_BYTES]);
    this.#bands.forEach(([from, to]) => this.#bytes.fill(BAND_BYTE, from, to));
    const words = new Uint32Array(this.#memory.buffer);
    tensors.forEach((at, i) => { words[at / 4] = this.#data[i]; });
    lists.forEach((at, i) => words.set(launches[i].args.map(arg => tensors[arg]), at / 4));
    words.set([1, 1, 0, 0, this.#scratch.at], this.#services / 4); // version, workers, host, parallel_for, scratch
    this.#calls = lists;
  }

  /** Links it and makes its inputs of the trial's seed. */
  async load(seed) {
    const kernels = [];
    try {
      for (const payload of this.#artefact.payloads)
        kernels.push(await instantiate(await WebAssembly.compile(payload), this.#memory, STACK_BYTES));
    } catch (error) {
      throw new Verdict(OUTCOME.linkError, error.message);
    }
    this.#calls = this.#artefact.launches.map(({phase, entry, payload}, i) => {
      const run = kernels[payload]?.exports[entry];
      if (!run) throw new Verdict(OUTCOME.linkError, `the artefact has no function ${entry}`);
      return {phase, run, args: this.#calls[i]};
    });
    this.#artefact.args.forEach((arg, i) => {
      if (arg.role === ROLE.table) this.#bytes.set(arg.table, this.#data[i]);
      if (arg.role !== ROLE.input && arg.role !== ROLE.constant) return;
      this.#bytes.fill(0x7f, this.#data[i], this.#data[i] + arg.size); // what a layout pads with is unspecified
      pack(arg.places, arg.shape, makeInput(arg, inputSeed(seed, i)), this.#elements(i));
    });
  }

  #elements(i) {
    const arg = this.#artefact.args[i], {array} = typeOf(arg.dtype);
    return new array(this.#memory.buffer, this.#data[i], arg.size / array.BYTES_PER_ELEMENT);
  }

  #call(phase, times) {
    const calls = this.#calls.filter(call => call.phase === phase), services = this.#services;
    let failed = 0;
    try {
      for (let i = 0; i < times; i++)
        for (const call of calls) failed |= call.run(call.args, services);
    } catch (error) {
      throw new Verdict(OUTCOME.crash, error.message, this);
    }
    if (failed) throw new Verdict(OUTCOME.crash, 'the kernel returned an error', this);
  }

  prepare() {
    this.#call(PHASE.prepare, 1);
  }

  /** Milliseconds that a run takes at least on a core of so many f32 operations a second: narrower elements go more at a time. */
  leastMs(peakFlops) {
    const sizes = this.#artefact.args.filter(({role}) => role !== ROLE.output).map(({dtype}) => typeOf(dtype).array.BYTES_PER_ELEMENT);
    return this.#artefact.executedFlops / (peakFlops * 4 / Math.min(4, ...sizes)) * 1000;
  }

  /** Milliseconds of so many runs. An element of each output is spoilt before, which they must write again. */
  run(times) {
    this.#spoil();
    const begin = performance.now();
    this.#call(PHASE.run, times);
    const ms = performance.now() - begin;
    for (const {bytes} of this.#spoilt)
      if (bytes.every(byte => byte === 0xff))
        throw new Verdict(OUTCOME.wrongResult, 'a timed call left an element of an output as it was before', this);
    return ms;
  }

  #outputs() {
    return [...this.#artefact.args.keys()].filter(i => this.#artefact.args[i].role === ROLE.output);
  }

  #spoil() {
    this.#spoilt = [];
    for (const i of this.#outputs()) {
      const {shape, places, dtype} = this.#artefact.args[i], size = typeOf(dtype).array.BYTES_PER_ELEMENT;
      if (countOf(shape) === 0) continue;
      const index = shape.map(extent => Math.floor(Math.random() * extent));
      const element = places ? places.offset(index) : index.reduce((at, k, d) => at * shape[d] + k, 0);
      const bytes = this.#bytes.subarray(this.#data[i] + element * size, this.#data[i] + (element + 1) * size);
      if (bytes.every(byte => byte === 0xff)) continue; // its right value: nothing to see
      bytes.fill(0xff);
      this.#spoilt.push({bytes});
    }
  }

  /**
   * Runs once over outputs and scratch that are full of `poison`, and compares the whole outputs: what a result says of
   * them, and the milliseconds.
   */
  check(poison, reference, when) {
    const outputs = this.#outputs();
    for (const [i, arg] of this.#artefact.args.entries())
      if (arg.role === ROLE.output || arg.role === ROLE.temp) this.#bytes.fill(poison, this.#data[i], this.#data[i] + arg.size);
    this.#bytes.fill(poison, this.#scratch.at, this.#scratch.at + this.#scratch.size);
    const begin = performance.now();
    this.#call(PHASE.run, 1);
    const ms = performance.now() - begin;
    if (!this.#bands.every(([from, to]) => this.#bytes.subarray(from, to).every(byte => byte === BAND_BYTE)))
      throw new Verdict(OUTCOME.crash, 'the kernel wrote outside of its arguments');
    if (outputs.length !== reference.length) throw new Verdict(OUTCOME.infra, "the reference blob is not one of this artefact's task");
    const said = {error: 0, max_abs_error: 0, relative_error: 0};
    outputs.forEach((i, k) => this.#compare(i, reference[k], when, said));
    return {ms, said};
  }

  #compare(i, expected, when, said) {
    const arg = this.#artefact.args[i];
    if (arg.dtype !== expected.dtype || String(arg.shape) !== String(expected.shape))
      throw new Verdict(OUTCOME.infra, "the reference blob is not one of this artefact's task");
    const actual = unpack(arg.places, arg.shape, this.#elements(i)), found = compare(expected, actual, this.#artefact.errorFactor);
    if (found.wrong)
      throw new Verdict(OUTCOME.wrongResult, `output ${arg.name} ${when}: ${found.wrong} of ${actual.length} elements are wrong; the worst is element ` +
          `${found.worst}: ${actual[found.worst]} instead of ${expected.values[found.worst]}`);
    said.error = Math.max(said.error, found.error);
    said.max_abs_error = Math.max(said.max_abs_error, found.distance);
    if (found.magnitude) said.relative_error = Math.max(said.relative_error, found.distance / found.magnitude);
  }
}
