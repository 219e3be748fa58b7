// Parallel loops of kernels on several workers that share a module's memory.

import {spawn} from './spawn.js';

/** Words of what the workers share: the loop that is to run, and how far it is. */
const GENERATION = 0, LEFT = 1, KERNEL = 2, BODY = 3, CONTEXT = 4, COUNT = 5, STATUS = 6;
const WORDS = 16;
/** Looks at a word so often before it waits for it: waking a worker takes longer than most loops. */
const SPINS = 20000;

/** Pages may share memory only where the server isolates them; their own thread may not wait. */
export const canShare = typeof SharedArrayBuffer === 'function' && (typeof crossOriginIsolated === 'undefined' || crossOriginIsolated);
const canWait = typeof window === 'undefined';

function wait(control, word, value) {
  for (let i = 0; i < SPINS; i++) if (Atomics.load(control, word) !== value) return;
  while (Atomics.load(control, word) === value) if (canWait) Atomics.wait(control, word, value);
}

/** Runs the part of a loop that is this worker's: iterations in equal shares, in order. */
function runShare(control, body, worker, workers) {
  const count = control[COUNT], begin = Math.floor(count * worker / workers), end = Math.floor(count * (worker + 1) / workers);
  const status = begin < end ? body(control[CONTEXT], BigInt(begin), BigInt(end), worker) : 0;
  if (status !== 0) Atomics.compareExchange(control, STATUS, 0, status);
}

/** What worker.js does once its kernels are there: shares of loops, for ever. */
export function serve(control, kernels, worker, workers) {
  for (let generation = 0; ; generation = generation + 1 | 0) { // the next loop may have begun before this one's end is seen here
    wait(control, GENERATION, generation);
    runShare(control, kernels[control[KERNEL]].body(control[BODY]), worker, workers);
    if (Atomics.sub(control, LEFT, 1) === 1) Atomics.notify(control, LEFT);
  }
}

async function start(message) {
  let settle;
  const answered = new Promise((resolve, reject) => { settle = {resolve, reject}; });
  const answer = data => (data.error ? settle.reject(new Error(data.error)) : settle.resolve());
  const worker = await spawn(new URL('./worker.js', import.meta.url), answer, error => settle.reject(error));
  worker.postMessage(message);
  await answered;
  worker.unref?.(); // a module that is not closed does not keep node alive
  return worker;
}

/** The caller and `workers - 1` others, with kernels over one memory. */
export class Team {
  #control = new Int32Array(new SharedArrayBuffer(4 * WORDS));
  #others = [];
  #workers;

  static async create(workers, modules, memory, stack) {
    const team = new Team();
    team.#workers = workers;
    const others = Array.from({length: workers - 1}, (_, i) =>
      start({control: team.#control, modules, memory, stack: stack * (i + 2), worker: i + 1, workers}));
    team.#others = (await Promise.allSettled(others)).map(({value, reason}) => value ?? reason);
    const failed = team.#others.find(one => one instanceof Error);
    if (!failed) return team;
    team.close();
    throw failed;
  }

  /** How kernel `kernel` runs its loops: for `instantiate`. */
  loopsOf(kernel) {
    return (count, index, context, body) => {
      const control = this.#control;
      control[KERNEL] = kernel;
      control[BODY] = index;
      control[CONTEXT] = context;
      control[COUNT] = Number(count);
      control[STATUS] = 0;
      Atomics.store(control, LEFT, this.#workers - 1);
      Atomics.add(control, GENERATION, 1);
      Atomics.notify(control, GENERATION);
      runShare(control, body, 0, this.#workers);
      for (let left; (left = Atomics.load(control, LEFT)) > 0;) wait(control, LEFT, left);
      return control[STATUS];
    };
  }

  close() {
    for (const worker of this.#others) worker.terminate?.();
  }
}
