export * from './errors.js';

/** Types of elements as Kiln names them; halves (f16, bf16) and floats of at most 8 bits travel as their bits, bool as bytes of 0 and 1. */
export type DType =
  'f32' | 'f64' | 'f16' | 'bf16' | 'i8' | 'i16' | 'i32' | 'i64' | 'u8' | 'u16' | 'u32' | 'u64' | 'bool' |
  'f8e4m3fn' | 'f8e4m3fnuz' | 'f8e5m2' | 'f8e5m2fnuz' | 'f8e8m0' | 'f4e2m1';

/** The array of a port, by its type: Float32Array of f32, Uint16Array of f16, BigInt64Array of i64, Uint8Array of bool. */
export type Data =
  Float32Array | Float64Array | Int8Array | Int16Array | Int32Array | BigInt64Array |
  Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

export interface Port {
  readonly name: string;
  readonly dtype: DType;
  /** Dense, row-major; of outputs whose number of rows only the run knows: what they have at most (`Module.rows`). */
  readonly shape: readonly number[];
}

/** Of a module that was compiled for several sizes of one dimension. */
export interface Sizes {
  /** The dimension's name in the model. */
  readonly dim: string;
  readonly min: number;
  readonly max: number;
  /** Every size from `min` to `max`, by padding and splitting runs; else those of `buckets` alone. */
  readonly takesAll: boolean;
  /** Sizes that it has kernels for, growing. */
  readonly buckets: readonly number[];
}

export interface Step {
  readonly action: 'kernel' | 'alias' | 'copy' | 'loop';
  /** Of the graph's node or group of nodes. */
  readonly name: string;
  /** "conv+relu" */
  readonly op: string;
  /** The key of the tuning task; "" where it is no kernel. */
  readonly task: string;
  /** Operations of one run. */
  readonly flops: number;
}

export interface StepTime {
  readonly name: string;
  readonly op: string;
  readonly action: Step['action'];
  /** Milliseconds of one run, on average; of a loop with its body. */
  readonly ms: number;
}

export interface Module {
  /** Ports and steps are those of the size that is set, at first the largest. */
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  readonly steps: readonly Step[];
  /** undefined: the module has one size. */
  readonly sizes?: Sizes;
  /** The number of threads that it runs on. */
  readonly threads: number;
  /** "model", "target", "codegen" */
  readonly metadata: Readonly<Record<string, string>>;
  /** The module's own memory of an input: the next `call` reads the values written there, without a copy. */
  input(name: string): Data;
  /** The module's own memory of an output, which the next `call` overwrites. */
  output(name: string): Data;
  /**
   * Sets the size of later calls. Arrays that `input` and `output` returned before must not be used afterwards.
   * @throws {OutOfRange} the module does not take that size
   * @throws {InvalidArgument} it has one size
   */
  setSize(size: number): void;
  /** Runs once, from `input(name)` to `output(name)`. */
  call(): void;
  /**
   * How many rows (of its first dimension) the last call gave an output: fewer than its shape says where their number depends
   * on data; zeros stand behind them. 0 before the first call.
   */
  rows(name: string): number;
  /**
   * Copies the inputs (each exactly of its port's array and length), runs, and gives copies of the outputs, with as many
   * rows as they have. A module of several sizes takes the size of the inputs, and keeps it.
   * Rejects with InvalidArgument for missing or unknown inputs and for other types; nothing has run then.
   */
  run(inputs: Readonly<Record<string, Data>>): Promise<Record<string, Data>>;
  /** Runs `times` times (1) as `call`, and says how long each step took. */
  profile(times?: number): StepTime[];
  /** Ends its workers and frees its memory; a closed module throws FailedPrecondition. */
  close(): void;
}

export interface LoadOptions {
  /** At most so many; by default as many as the module was compiled for, or 1 in pages that may not share memory. */
  readonly threads?: number;
}

/**
 * Loads a module that `kiln compile --target wasm` made. `source`: a URL, in node also a path, a Response, or bytes.
 * Rejects with NotFound or Unavailable where it cannot be had, DataLoss where it is damaged, FailedPrecondition where it is
 * for another machine, and Unimplemented where it is newer than this package.
 */
export function load(source: string | URL | Response | ArrayBuffer | ArrayBufferView, options?: LoadOptions): Promise<Module>;
