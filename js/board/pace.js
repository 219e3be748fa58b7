// The reference kernel of a board in a page: what its core can do at most, and whether it is as fast now as it usually is
// (rpc-server/reference_kernel.h and drift.h, of which it has the part of arithmetic).

/** A reading is the middle one of so many short times, each of so many steps of the clock. */
const SHORTS = 3, SHORT_STEPS = 40, SHORT_MS = 0.02;
/** Coarser clocks, those of pages that are not isolated, would make readings longer than samples. */
const CLOCK_STEP_MAX_MS = 0.01;
/** Engines compile a function anew after some time: until then it is slow. */
const SETTLE_MS = 100, RISE = 1.02;
/** rpc-server/drift.h. */
const WINDOW = 64, START = 32, FASTER = 16, IN_BAND = 0.97, BAND = {least: 0.05, most: 0.25};

// ---- Two kernels, as bytes of WebAssembly ----

const OP = {get: 0x20, set: 0x21, tee: 0x22, loop: [0x03, 0x40], again: [0x0d, 0], end: 0x0b, minusOne: [0x41, 1, 0x6b]};
const TYPE = {i32: 0x7f, i64: 0x7e, f32: 0x7d, v128: 0x7b};
const F32X4 = {splat: [0xfd, 0x13], add: [0xfd, 0xe4, 1], mul: [0xfd, 0xe6, 1], lane0: [0xfd, 0x1f, 0]};
const I64 = {add: [0x7c], shift: [0x88], xor: [0x85]};

const number = n => (n < 128 ? [n] : [n & 127 | 128, ...number(n >> 7)]);
const section = (id, bytes) => [id, ...number(bytes.length), ...bytes];

/**
 * A module with run(times, a, b): a loop in which each of `chains` variables goes through `step`, so that they depend on
 * themselves only; they begin with b, 2 b, 3 b, .... `widen`: code that makes a value of the variables' type of a parameter.
 */
function loopOf({param, type, chains, widen, step, add, narrow}) {
  const a = 3, b = 4, all = Array.from({length: chains}, (_, i) => b + 1 + i);
  const code = [
    OP.get, 1, ...widen, OP.set, a, OP.get, 2, ...widen, OP.set, b,
    ...all.flatMap(v => [OP.get, v - 1, OP.get, b, ...add, OP.set, v]),
    ...OP.loop, ...all.flatMap(v => [...step(v, a, b), OP.set, v]), OP.get, 0, ...OP.minusOne, OP.tee, 0, ...OP.again, OP.end,
    OP.get, b, ...all.flatMap(v => [OP.get, v, ...add]), ...narrow, OP.end,
  ];
  const body = [1, chains + 2, type, ...code];
  return new Uint8Array([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, [1, 0x60, 3, TYPE.i32, param, param, 1, param]),
    ...section(3, [1, 0]),
    ...section(7, [1, 3, ...new TextEncoder().encode('run'), 0, 0]),
    ...section(10, [1, ...number(body.length), ...body]),
  ]);
}

/** As many multiply-adds of f32 in vectors as an engine does: sum = sum * a + b. */
const CHAINS = 12, FLOPS = CHAINS * 4 * 2;
const MULTIPLY_ADDS = loopOf({
  param: TYPE.f32, type: TYPE.v128, chains: CHAINS, widen: F32X4.splat, narrow: F32X4.lane0, add: F32X4.add,
  step: (v, a, b) => [OP.get, v, OP.get, a, ...F32X4.mul, OP.get, b, ...F32X4.add],
});
/** Independent integer operations that want every issue slot: x = (x + a) ^ (x >> b). */
const INTEGERS = loopOf({
  param: TYPE.i64, type: TYPE.i64, chains: 8, widen: [], narrow: [], add: I64.add,
  step: (v, a, b) => [OP.get, v, OP.get, a, ...I64.add, OP.get, v, OP.get, b, ...I64.shift, ...I64.xor],
});

async function kernelOf(bytes, ...args) {
  const {run} = (await WebAssembly.instantiate(bytes)).instance.exports;
  return times => {
    const begin = performance.now();
    run(times, ...args);
    return performance.now() - begin;
  };
}

/** How often a kernel's loop runs in some milliseconds; a first call, and one that was interrupted, take longer. */
function timesFor(kernel, ms) {
  let times = 64;
  while (Math.min(kernel(times), kernel(times), kernel(times)) < ms) times *= 2;
  return times;
}

// ---- Usual readings ----

const quantile = (sorted, share) => sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)];

/** The usual reading, learnt from the newest; `band`: the share by which those of a quiet board vary. */
export class Usual {
  #readings = [];
  ms = 0;
  band = 0;

  take(ms) {
    this.#readings = [...this.#readings.slice(1 - WINDOW), ms];
    const sorted = [...this.#readings].sort((a, b) => a - b);
    this.ms = quantile(sorted, 1 / FASTER);
    this.band = Math.min(Math.max(quantile(sorted, IN_BAND) / this.ms - 1, BAND.least), BAND.most);
  }

  isSlow(drift) {
    return drift > 1 + this.band;
  }

  isOut(drift) {
    return drift > 0 && Math.abs(Math.log(drift)) > Math.log1p(this.band);
  }
}

/** The reference kernel of this thread. */
export class Pace {
  #multiplyAdds;
  #integers;
  #shortMs;
  #times; // that the loop of integers runs in a short time
  #reads; // the clock is fine enough for readings
  usual = new Usual();
  /** f32 operations a second, the most that was seen. */
  peakFlops = 0;

  /** `clockStepMs`: of performance.now(). Takes some tenths of a second. */
  static async create(clockStepMs) {
    const pace = new Pace();
    pace.#multiplyAdds = await kernelOf(MULTIPLY_ADDS, 0.999, 0.1);
    pace.#integers = await kernelOf(INTEGERS, 0x1e3779b97f4a7c15n, 1n);
    pace.#shortMs = Math.max(SHORT_STEPS * clockStepMs, SHORT_MS);
    pace.#reads = clockStepMs <= CLOCK_STEP_MAX_MS;
    pace.seekPeak();
    if (!pace.#reads) return pace;
    for (const end = performance.now() + SETTLE_MS; performance.now() < end;) pace.#integers(timesFor(pace.#integers, pace.#shortMs));
    pace.#times = timesFor(pace.#integers, pace.#shortMs);
    for (let i = 0; i < START; i++) pace.usual.take(pace.#reading());
    return pace;
  }

  /** Looks whether more operations a second can be had, until a tenth of a second brought no more. */
  seekPeak() {
    const times = timesFor(this.#multiplyAdds, this.#shortMs);
    for (let end = performance.now() + SETTLE_MS; performance.now() < end;) {
      const flops = FLOPS * times / this.#multiplyAdds(times) * 1000;
      if (flops > RISE * this.peakFlops) end = performance.now() + SETTLE_MS;
      this.peakFlops = Math.max(this.peakFlops, flops);
    }
  }

  #reading() {
    return Array.from({length: SHORTS}, () => this.#integers(this.#times)).sort((a, b) => a - b)[SHORTS >> 1];
  }

  /** Milliseconds that it takes now; undefined where the clock is too coarse. A slow reading is taken again at once. */
  read() {
    if (!this.#reads) return undefined;
    const ms = this.#reading();
    return this.usual.isSlow(ms / this.usual.ms) ? this.#reading() : ms;
  }

  /** Learns from a reading before any code of a trial has run. */
  learn() {
    if (this.#reads) this.usual.take(this.#reading());
  }
}
