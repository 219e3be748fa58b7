// Server-sent events. The browser's EventSource resumes by itself with Last-Event-ID; this adds a bounded rate of
// updates, a state to show, and a fresh start when the server cannot go on where it was.
import {address} from './api.js';

const RATE_MS = 250;
const HIDDEN_MS = 5000; // a page that nobody sees
const RETRY_MS = {least: 1000, most: 30000};

/** Calls `run` soon, but at most once per `interval()` ms and never while the page is busy with a frame. */
export function bounded(run, interval = () => (document.hidden ? HIDDEN_MS : RATE_MS)) {
  let timer = 0;
  let last = -Infinity;
  const fire = () => {
    timer = 0;
    last = performance.now();
    run();
  };
  const ask = () => { timer ||= setTimeout(fire, Math.max(0, last + interval() - performance.now())); };
  ask.cancel = () => clearTimeout(timer);
  return ask;
}

/** Joins changes that come before the page is updated: the newest row of each key, and what is gone. */
export class Pending {
  #key;
  #rows = new Map();
  #gone = new Set();

  constructor(key) {
    this.#key = key;
  }

  add({row, rows = row ? [row] : [], gone = []}) {
    for (const row of rows) {
      this.#rows.set(row[this.#key], row);
      this.#gone.delete(row[this.#key]);
    }
    for (const key of gone) {
      this.#rows.delete(key);
      this.#gone.add(key);
    }
  }

  /** What has gathered; it is empty afterwards. */
  drain() {
    const change = {rows: [...this.#rows.values()], gone: [...this.#gone]};
    this.#rows.clear();
    this.#gone.clear();
    return change;
  }
}

/**
 * Follows topics until `signal` is aborted. `on.boards(change)` is called with {rows, gone} for events of that name;
 * `keys.boards` names the member that identifies a row. Every stream begins with all rows; when it does so again, because the
 * server no longer knows what this page has, onReset() is called: the lists must be loaded again.
 * `onState('live' | 'waiting')` tells whether events come.
 */
export function follow(topics, {on, keys, onReset, onState, signal}) {
  let source;
  let retryMs = RETRY_MS.least;
  let retry = 0;
  const begun = new Set();
  const names = Object.keys(on);
  const pending = Object.fromEntries(names.map(name => [name, new Pending(keys[name])]));
  const deliver = Object.fromEntries(names.map(name => [name, bounded(() => on[name](pending[name].drain()))]));

  const listen = name => event => {
    const change = JSON.parse(event.data);
    if (change.all && begun.has(name)) onReset?.();
    if (change.all) begun.add(name);
    pending[name].add(change);
    deliver[name]();
  };
  const open = () => {
    source = new EventSource(address('events', {topics: topics.join(',')}), {withCredentials: true});
    for (const name of names) source.addEventListener(name, listen(name));
    source.onopen = () => {
      retryMs = RETRY_MS.least;
      onState?.('live');
    };
    source.onerror = () => {
      onState?.('waiting');
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
      retry = setTimeout(open, retryMs);
      retryMs = Math.min(2 * retryMs, RETRY_MS.most);
    };
  };
  open();
  signal.addEventListener('abort', () => {
    clearTimeout(retry);
    source.close();
    Object.values(deliver).forEach(ask => ask.cancel());
  });
}
