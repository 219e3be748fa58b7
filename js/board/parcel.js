// Inputs and outputs of a module that runs here for another program, laid out as in deploy/run/parcel.h.
const ALIGNMENT = 64;
const HEAD_BYTES = 64; // of the times: how many runs, and the peak of a core
const RUNS_MAX = 1000, RUNS_MS = 1000, WARM_MS = 100;
const NS = 1e6; // in a millisecond

const align = place => Math.ceil(place / ALIGNMENT) * ALIGNMENT;
const bytesOf = array => new Uint8Array(array.buffer, array.byteOffset, array.byteLength);

export class Parcel {
  #module;
  #inputs = []; // {own, from: bytes of all samples}
  #outputs = []; // {own, to}
  #timesAt;

  /** `how`: the record module_run; `inputs`: bytes. Throws where module and inputs do not belong together. */
  constructor(module, {samples, output_bytes: outputBytes}, inputs) {
    this.#module = module;
    if (samples.length !== module.inputs.length) throw new Error(`the module has ${module.inputs.length} inputs, ${samples.length} were sent`);
    this.samples = Math.max(1, ...samples.map(Number));
    let at = 0;
    module.inputs.forEach(({name}, i) => {
      const own = bytesOf(module.input(name)), size = own.length * Number(samples[i]);
      this.#inputs.push({own, from: inputs.subarray(at, at + size)});
      at += align(size);
    });
    if (inputs.length !== Math.max(at, ALIGNMENT)) throw new Error(`the module takes ${at} bytes of inputs, ${inputs.length} came`);
    this.outputs = new Uint8Array(outputBytes);
    at = 0;
    for (const {name} of module.outputs) {
      const own = bytesOf(module.output(name)), size = own.length * this.samples;
      if (at + size > outputBytes) throw new Error('the module leaves more bytes than were announced');
      this.#outputs.push({own, to: this.outputs.subarray(at, at + size)});
      at += align(size);
    }
    this.#timesAt = at;
  }

  /** Of inputs with one sample it is the same in all runs. */
  run(sample) {
    for (const {own, from} of this.#inputs) own.set(from.length === own.length ? from : from.subarray(sample * own.length, (sample + 1) * own.length));
    this.#module.call();
    for (const {own, to} of this.#outputs) to.set(own, sample * own.length);
  }

  /** Times runs on the last sample. */
  time(peakFlops) {
    const view = new DataView(this.outputs.buffer), most = Math.min(RUNS_MAX, Math.floor((this.outputs.length - this.#timesAt - HEAD_BYTES) / 8));
    for (const end = performance.now() + WARM_MS; performance.now() < end;) this.#module.call();
    let runs = 0;
    for (const end = performance.now() + RUNS_MS; runs < most && (runs === 0 || performance.now() < end); runs++) {
      const begin = performance.now();
      this.#module.call();
      view.setFloat64(this.#timesAt + HEAD_BYTES + 8 * runs, (performance.now() - begin) * NS, true);
    }
    view.setBigUint64(this.#timesAt, BigInt(runs), true);
    view.setFloat64(this.#timesAt + 8, peakFlops, true);
  }
}
