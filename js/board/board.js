// A board of the fleet in a page or in node: measures candidates for WebAssembly, as kiln-rpc-server does on machines.
import {Aborted, ResourceExhausted, Unauthenticated} from '../errors.js';
import {spawn} from '../spawn.js';
import {OUTCOME} from './candidate.js';
import {Connection, Key, random} from './connection.js';

const TARGET = 'cpu:wasm32-unknown-unknown';
const RETRY_MS = {least: 100, most: 5000};
const TRIALS_MAX = 64; // waiting, running and kept
const CACHE_BYTES = 128 << 20;
const NS = 1e6; // in a millisecond
/** Names of phases by number (proto/proto.h), and how long one lasts whose TRIAL does not say. */
const PHASES = {1: 'fetch', 2: 'load', 3: 'warm', 4: 'run', 5: 'check'};
const FETCH = 1;
const DEADLINE_MS = 10000;
/** base/outcome.h. */
const BLAME = {none: 0, candidate: 1, infra: 3};
/** proto/proto.h. */
const CANCEL_TRIAL = 1;

const blameOf = outcome => (outcome === OUTCOME.ok ? BLAME.none : outcome === OUTCOME.infra ? BLAME.infra : BLAME.candidate);

/** Blobs by digest; the oldest go first. */
class Cache {
  #blobs = new Map();
  #bytes = 0;

  get(name) {
    return this.#blobs.get(name);
  }

  put(name, bytes) {
    this.#blobs.set(name, bytes);
    this.#bytes += bytes.length;
    for (const [oldest, content] of this.#blobs) {
      if (this.#bytes <= CACHE_BYTES || oldest === name) break;
      this.#blobs.delete(oldest);
      this.#bytes -= content.length;
    }
  }
}

class Board {
  #options;
  #key;
  #boot = random(16);
  #connection;
  #isOpen = false;
  #isClosed = false;
  #retryMs = RETRY_MS.least;
  #entries = new Map();
  #lease = -1n; // the newest that was seen
  #cache = new Cache();
  #turn = Promise.resolve(); // of the trials: one runs at a time
  #worker;
  #end;

  /** Settles when the board is closed; fails where the tracker does not let it in. */
  closed = new Promise((resolve, reject) => { this.#end = {resolve, reject}; });

  constructor(url, options) {
    this.#options = {url, WebSocket: globalThis.WebSocket, log: () => {}, ...options};
    this.#key = new Key(options.key);
    this.#dial();
  }

  close() {
    this.#finish();
    this.#connection.close(new Error('closed by the page'));
    this.#end.resolve();
  }

  #finish() {
    this.#isClosed = true;
    this.#stop(() => true, true);
    this.#worker?.terminate();
  }

  // ---- The connection ----

  #dial() {
    const {url, WebSocket} = this.#options;
    this.#connection = new Connection(url, this.#key, this.#boot, WebSocket, {
      opened: () => this.#opened(),
      message: (name, fields) => this.#message(name, fields),
      keyOffered: text => this.#takeKey(text),
      closed: error => this.#lost(error),
    });
  }

  #opened() {
    const {name = this.#key.node, device = describe(), labels = {}} = this.#options;
    this.#isOpen = true;
    this.#retryMs = RETRY_MS.least;
    this.#options.log('connected to the tracker');
    this.#connection.send('BOARD_UP', {
      key: name, target: TARGET, slots: 1, device, firmware: device, executors: 'wasm',
      labels: Object.entries({browser: typeof window === 'undefined' && typeof WorkerGlobalScope === 'undefined' ? 'node' : 'page', ...labels}).map(([key, value]) => ({key, value})),
      running: [...this.#entries.values()].map(({trial}) => idOf(trial)),
    });
    for (const {result} of this.#entries.values()) if (result) this.#connection.send('TRIAL_RESULT', result);
  }

  async #takeKey(text) {
    const {keyChanged, log} = this.#options;
    if (!keyChanged) throw new Error('the page keeps no new keys');
    await keyChanged(text);
    this.#key = new Key(text);
    log(`the key is ${this.#key.name} now`);
  }

  #lost(error) {
    this.#isOpen = false;
    if (this.#isClosed) return;
    this.#options.log(error.message);
    if (error instanceof Unauthenticated) {
      this.#finish();
      this.#end.reject(error);
      return;
    }
    setTimeout(() => this.#isClosed || this.#dial(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS.most);
  }

  #message(name, fields) {
    if (name === 'TRIAL') this.#take(fields);
    if (name === 'TRIAL_ACK') this.#forget(fields);
    if (name === 'LEASE_LOST') this.#stop(entry => entry.trial.lease === fields.lease, true);
    if (name === 'CANCEL')
      this.#stop(({trial}) => trial.lease === fields.lease && (fields.scope !== CANCEL_TRIAL || trial.trial === fields.id), false);
  }

  // ---- Trials ----

  #refuse(trial, {number, message}) {
    this.#connection.send('ERROR', {code: number, text: message, about: trial.trial, lease: trial.lease});
  }

  #take(trial) {
    const id = nameOf(trial), known = this.#entries.get(id), lease = BigInt(trial.lease);
    if (known) { // a repeated message; the answer may have been lost
      if (known.result) this.#connection.send('TRIAL_RESULT', known.result);
      return;
    }
    if (lease < this.#lease) return this.#refuse(trial, new Aborted('the slot has seen a newer lease'));
    if (this.#entries.size >= TRIALS_MAX) return this.#refuse(trial, new ResourceExhausted('too many trials on this board'));
    if (lease > this.#lease) this.#stop(entry => BigInt(entry.trial.lease) < lease, true);
    this.#lease = lease;
    const entry = {trial, phase: FETCH, since: performance.now(), spent: {}};
    this.#entries.set(id, entry);
    this.#work(entry);
  }

  #forget(trial) {
    this.#entries.delete(nameOf(trial));
  }

  /** Ends trials that are not measured yet, with a result unless their lease is over. */
  #stop(which, isOver) {
    for (const entry of [...this.#entries.values()].filter(which)) {
      if (isOver) this.#forget(entry.trial);
      if (entry.result) continue;
      entry.stopped = true;
      if (entry.abort) entry.abort(OUTCOME.infra, 'cancelled');
      else if (!isOver) this.#keep(entry, [{outcome: OUTCOME.infra, text: 'cancelled'}]);
    }
  }

  async #work(entry) {
    const {trial} = entry;
    try {
      if (trial.recipe) throw new Error('a page builds nothing');
      const [reference, ...artefacts] = await Promise.all([trial.reference, trial.artefact, ...trial.rivals ?? []].map(ref => this.#bring(ref)));
      const {seed, policy, race_ns: raceNs = 0, module} = trial;
      const order = module ? {module: artefacts[0], inputs: reference, how: module} : {artefacts, reference, seed, policy, raceNs};
      this.#turn = this.#turn.then(() => (entry.stopped ? undefined : this.#measure(entry, order)));
      await this.#turn;
    } catch (error) {
      if (!entry.stopped) this.#keep(entry, [{outcome: OUTCOME.infra, text: error.message}]);
    }
  }

  async #bring(ref) {
    const name = String(ref.digest), known = this.#cache.get(name);
    if (known) return known;
    const bytes = await this.#connection.fetch(ref);
    this.#cache.put(name, bytes);
    return bytes;
  }

  #enter(entry, phase) {
    const now = performance.now(), name = PHASES[entry.phase];
    entry.spent[name] = (entry.spent[name] ?? 0) + Math.round((now - entry.since) * NS);
    Object.assign(entry, {phase, since: now});
  }

  /** In a worker, which is ended where a phase passes its deadline: the next trial gets another one. */
  async #measure(entry, order) {
    const {trial} = entry, worker = await this.#start();
    if (entry.stopped) return;
    const results = await new Promise(resolve => {
      let timer;
      const end = found => {
        clearTimeout(timer);
        resolve(found);
      };
      const kill = (outcome, text) => {
        worker.terminate();
        this.#worker = undefined;
        end([{outcome, text}]);
      };
      const enter = phase => {
        this.#enter(entry, phase);
        clearTimeout(timer);
        const ms = trial.deadlines_ms?.[PHASES[phase]] || DEADLINE_MS;
        timer = setTimeout(() => kill(OUTCOME.timeout, `phase ${PHASES[phase]} took longer than ${ms} ms`), ms);
      };
      entry.abort = kill;
      enter(2);
      this.#answer = data => (data.phase ? enter(data.phase) : end(data.results));
      this.#failed = error => kill(OUTCOME.infra, error.message); // what candidates throw is caught there
      worker.postMessage(order);
    });
    entry.abort = undefined;
    if (results[0].outputs) results[0].outputs = await this.#connection.put(results[0].outputs);
    this.#keep(entry, results);
  }

  #answer;
  #failed;

  /** The worker, started where there is none; nothing is heard of one that was ended. */
  async #start() {
    if (this.#worker) return this.#worker;
    const heard = of => what => {
      if (worker === this.#worker) of(what);
    };
    const worker = await spawn(new URL('./trial.js', import.meta.url), heard(data => this.#answer(data)), heard(error => this.#failed(error)));
    if (this.#isClosed) worker.terminate();
    this.#worker = worker;
    return worker;
  }

  #keep(entry, [own, ...rivals]) {
    this.#enter(entry, entry.phase);
    const {trial} = entry, id = nameOf(trial);
    const result = {...idOf(trial), ...finite(own), blame: blameOf(own.outcome), phase: entry.phase, times_ns: entry.spent};
    if (trial.rivals) result.rivals = trial.rivals.map((_, i) => finite(rivals[i] ?? {outcome: OUTCOME.infra, text: 'it was not measured'}));
    this.#options.log(`${trial.trial}: outcome ${own.outcome} ${own.text ?? ''}`);
    if (this.#entries.get(id) !== entry) return; // its lease is over
    entry.result = result;
    if (this.#isOpen) this.#connection.send('TRIAL_RESULT', result);
  }
}

const idOf = ({trial, attempt, lease}) => ({trial, attempt, lease});
const nameOf = ({trial, attempt, lease}) => `${trial} ${attempt} ${lease}`;

/** Messages carry finite numbers only. */
const finite = result => Object.fromEntries(Object.entries(result).filter(([, value]) => typeof value !== 'number' || Number.isFinite(value)));

function describe() {
  const text = typeof process === 'object' && process.versions?.node ? `node ${process.version}` : navigator.userAgent;
  return text.slice(0, 128);
}

/**
 * Offers this page to the tracker that listens at `url` (`kiln-tracker --listen ws:...`).
 *
 * `options.key`: text of the file that `kiln key new board/NODE` wrote. Optional: `name` and `device`, as `kiln fleet` shows them; `labels`, by
 * name; `log(text)`; `WebSocket`, a class for engines that have none; `keyChanged(text)`, which keeps the next key in the place of the present one.
 * Gives the board: `closed` is a promise that fails where the tracker does not let it in; `close()` ends it.
 */
export function serve(url, options) {
  return new Board(url, options);
}
