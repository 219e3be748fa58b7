// A board with a tracker that is made up: the class that it takes for WebSocket. Lies in a folder where the package is
// installed. Argument: the case.
import assert from 'node:assert/strict';
import {createHash, createHmac} from 'node:crypto';
import {serve} from 'kiln/board';
import {Key} from './node_modules/kiln/board/connection.js';
import {inputSeed, makeInput, placesOf, typeOf} from './node_modules/kiln/board/elements.js';
import {Usual} from './node_modules/kiln/board/pace.js';
import {STOP, time} from './node_modules/kiln/board/timing.js';
import {FrameReader, frame, message} from './node_modules/kiln/board/wire.js';

const OUTCOME = {ok: 0, linkError: 2, wrongResult: 3, timeout: 4, crash: 5, infra: 7};
const KEY = `kiln-keys 1\nboard/page/1 ${'07'.repeat(32)}\n`;
const URL_OF_TRACKER = 'ws://tracker.test:9479/';
const NONCE = new Uint8Array(32).fill(9);

// ---- Artefacts and references ----

function pack(value) {
  const head = (byte, count) => [byte, ...new Uint8Array(new Uint32Array([count]).buffer).reverse()];
  if (typeof value === 'boolean') return [value ? 0xc3 : 0xc2];
  if (typeof value === 'number') return [0xd3, ...new Uint8Array(new BigInt64Array([BigInt(value)]).buffer).reverse()];
  if (typeof value === 'string') return [...head(0xdb, value.length), ...Buffer.from(value)];
  if (Array.isArray(value)) return [...head(0xdd, value.length), ...value.flatMap(pack)];
  return [...head(0xdf, value.size), ...[...value].flatMap(([key, item]) => [...pack(key), ...pack(item)])];
}

const section = (id, bytes) => [id, bytes.length, ...bytes];
const f32 = value => [...new Uint8Array(new Float32Array([value]).buffer)];
/** Stores a float at byte `offset` of the output, whose address is in local 2. */
const store = (value, offset) => [0x20, 2, 0x43, ...f32(value), 0x38, 2, offset];
const outputAddress = [0x20, 0, 0x28, 2, 0, 0x28, 2, 0, 0x21, 2];
const all = value => [0, 4, 8, 12].flatMap(offset => store(value, offset));

/** A module whose kiln_run(args, services) has this code before it returns `status`; it has a variable, global 0. */
function kernel(code, status = 0) {
  const body = [1, 1, 0x7f, ...outputAddress, ...code, 0x41, status, 0x0b];
  const name = text => [text.length, ...Buffer.from(text)];
  return [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, [1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f]),
    ...section(2, [1, ...name('env'), ...name('__linear_memory'), 2, 0, 0]),
    ...section(3, [1, 0]),
    ...section(6, [1, 0x7f, 1, 0x41, 0, 0x0b]),
    ...section(7, [1, ...name('kiln_run'), 0, 0]),
    ...section(10, [1, body.length, ...body])];
}

/** An artefact with one output of four floats, that says of itself how many operations a run takes. */
function artefact(payload, flops = 0) {
  const output = new Map([[1, 'y'], [2, 1], [3, 3], [4, [4]], [5, 'row'], [6, 1], [7, true]]);
  const manifest = pack(new Map([[1, 1], [2, 1], [3, 'cpu:wasm32-unknown-unknown'], [4, ''], [5, ''], [6, ''], [7, false], [8, 1], [9, 0], [10, 0], [11, flops], [12, [output]]]));
  const head = Buffer.alloc(24);
  head.write('KILNART1');
  head.writeUInt32LE(manifest.length, 8);
  head.writeBigUInt64LE(BigInt(payload.length), 16);
  const padding = new Array(-(24 + manifest.length) & 15).fill(0);
  return Uint8Array.from([...head, ...manifest, ...padding, ...payload]);
}

/** Four floats of 1.5, which may be off by 0.25. */
function reference() {
  const blob = Buffer.alloc(256);
  blob.write('KILNREF1');
  blob.writeUInt32LE(1, 8);
  blob.writeUInt32LE(1, 16); // f32, of one dimension
  blob.writeUInt32LE(1, 20);
  blob.writeBigInt64LE(4n, 24);
  blob.writeBigUInt64LE(128n, 16 + 8 + 64);
  blob.writeBigUInt64LE(192n, 16 + 8 + 64 + 8);
  for (let i = 0; i < 4; i++) {
    blob.writeFloatLE(1.5, 128 + 4 * i);
    blob.writeFloatLE(0.25, 192 + 4 * i);
  }
  return new Uint8Array(blob);
}

// ---- The tracker ----

const blobs = new Map();
function put(bytes) {
  const digest = createHash('sha256').update(bytes).digest();
  blobs.set(digest.toString('hex'), bytes);
  return {digest: new Uint8Array(digest), size: bytes.length};
}

class Tracker {
  static last;
  static secret = KEY; // what it knows
  static waiting = [];
  static said = [];
  #reader = new FrameReader();
  readyState = 0;

  constructor(url) {
    this.url = url;
    Tracker.last = this;
    queueMicrotask(() => {
      this.readyState = 1;
      this.onopen();
    });
  }

  send(bytes) {
    for (const one of this.#reader.take(bytes)) this.#message(one.stream, message(one));
  }

  say(name, fields, stream) {
    this.onmessage({data: frame(name, fields, stream).buffer});
  }

  #data(stream, bytes, isLast) {
    const whole = new Uint8Array(16 + bytes.length), view = new DataView(whole.buffer);
    whole.set([0x4b, 0x4c, 0x4e, 0x31, 127, isLast ? 1 : 0]);
    view.setUint32(8, stream, true);
    view.setUint32(12, bytes.length, true);
    whole.set(bytes, 16);
    this.onmessage({data: whole.buffer});
  }

  async #message(stream, {name, fields}) {
    const key = new Key(Tracker.secret);
    if (name === 'HELLO') {
      this.hello = fields;
      this.say('CHALLENGE', {nonce: NONCE, proof: await key.prove('tracker', fields.nonce, NONCE, 'tracker.test:9479')});
    } else if (name === 'PROOF') {
      assert.deepEqual(fields.proof, await key.prove('peer', this.hello.nonce, NONCE, 'tracker.test:9479'));
      this.say('WELCOME', {version: 5, boot: 'b', heartbeat_ms: 1000});
    } else if (name === 'BLOB_GET') {
      const bytes = blobs.get(Buffer.from(fields.digest).toString('hex'));
      if (!bytes) return this.say('ERROR', {code: 5, text: 'no such blob'}, stream);
      this.say('BLOB_PUT', {blob: {digest: fields.digest, size: bytes.length}}, stream);
      this.#data(stream, bytes.subarray(0, 100), false);
      this.#data(stream, bytes.subarray(100), true);
    } else if (name !== 'PING') {
      Tracker.said.push({name, fields});
      Tracker.waiting.shift()?.();
    }
    return undefined;
  }

  close() {
    this.readyState = 3;
    queueMicrotask(() => this.onclose());
  }
}

/** The next message of the board that is no PING; it must have that name. */
async function hear(name) {
  if (!Tracker.said.length) await new Promise(resolve => Tracker.waiting.push(resolve));
  const {name: found, fields} = Tracker.said.shift();
  assert.equal(found, name, JSON.stringify(fields));
  return fields;
}

let count = 0;
const POLICY = {samples_min: 5, samples_max: 20, interval: 0.01, sample_ns: 10000, total_ns: 5000000};
function trial(code, more = {}) {
  return {trial: `t${++count}`, attempt: 1, lease: 5, job: 'j', artefact: put(artefact(code)), reference: put(reference()), seed: 1n, policy: POLICY, deadlines_ms: {warm: 300}, ...more};
}

async function measure(one) {
  Tracker.last.say('TRIAL', one);
  const result = await hear('TRIAL_RESULT');
  assert.deepEqual([result.trial, result.attempt, result.lease], [one.trial, one.attempt, one.lease]);
  Tracker.last.say('TRIAL_ACK', {trial: one.trial, attempt: 1, lease: one.lease});
  return result;
}

async function open(options) {
  const board = serve(URL_OF_TRACKER, {key: KEY, WebSocket: Tracker, ...options});
  const up = await hear('BOARD_UP');
  assert.equal(up.target, 'cpu:wasm32-unknown-unknown');
  assert.deepEqual(up.running, []);
  return board;
}

const right = kernel(all(1.5)), hangs = kernel([0x03, 0x40, 0x0c, 0, 0x0b]);

// ---- Cases ----

const cases = {
  /** What C fills and places, computed once by base/ (seed 0x123456789abcdef1, argument 3). */
  async elements() {
    const seed = inputSeed(0x123456789abcdef1n, 3);
    assert.equal(seed, 6748247696359141374n);
    assert.equal(inputSeed(7, 0), 14269266266311360037n);
    for (const [dtype, fill, hex] of [
      [1, 1, 'd06a66bdac4a50bfccc254be'], [1, 2, 'a8cc783faada173fa667653f'],
      [2, 1, 'e0b9ff5c58cdacbf81557f715509eabf144ef8065998cabf'], [2, 2, '3002183d9519ef3f3e55404755fbe23f3cf620dff4acec3f'],
      [3, 1, '40ab83baa8b2'], [3, 2, 'c63bbe382a3b'], [4, 1, '70bd51bf58be'], [4, 2, '783f163f643f'],
      [5, 1, 'f897e5'], [6, 1, 'f8ff97ffe5ff'], [7, 2, '080000000800000006000000'], [8, 1, 'f8ffffffffffffff97ffffffffffffffe5ffffffffffffff'],
      [9, 1, '3c0b32'], [12, 2, '080000000000000008000000000000000600000000000000'], [13, 1, '000000'], [13, 2, '010101'],
      [14, 1, '98b6a8'], [14, 2, '363036'], [15, 1, 'a0beb0'], [15, 2, '3e383e'], [16, 1, 'b0bbb4'], [16, 2, '3a383a'],
      [17, 1, 'b4bfb8'], [17, 2, '3e3c3e'], [18, 1, '7b7e7b'], [18, 2, '7f7f7f'], [19, 1, '090a09'], [19, 2, '010101']])
      assert.equal(Buffer.from(makeInput({dtype, shape: [3], fill}, seed).buffer).toString('hex'), hex, `type ${dtype}, fill ${fill}`);
    for (const [dtype, code, value] of [[14, 0x7e, 448], [14, 0x7f, NaN], [15, 0xff, -240], [15, 0x80, NaN], [16, 0x7c, Infinity], [16, 0xfd, NaN],
      [17, 0x01, 2 ** -17], [18, 0, 2 ** -127], [18, 0xff, NaN], [19, 0xf, -6]])
      assert.equal(typeOf(dtype).load(code), value);
    assert.deepEqual([...makeInput({dtype: 6, shape: [3], fill: 4, range: [-10, 20, 5]}, seed)], [5, -10, 0]);
    for (const [layout, size, places] of [
      ['d0,d1/4,d2,d1%4', 48, [0, 9, 7, 13, 32, 30, 36, 45]], ['d1/4,d0,d2,d1%4', 48, [0, 9, 7, 25, 20, 18, 36, 45]],
      ['d0+1,d1,d2', 54, [0, 5, 10, 15, 20, 25, 30, 35]], ['d0,d1,d2/2^d1%2,d2%2', 48, [0, 4, 15, 22, 26, 33, 40, 44]]]) {
      const {shape, offset} = placesOf(layout, [2, 6, 3]);
      assert.equal(shape.reduce((a, b) => a * b), size);
      assert.deepEqual(places.map((_, i) => offset([Math.floor(i * 5 / 18), Math.floor(i * 5 / 3) % 6, i * 5 % 3])), places, layout);
    }
  },

  async outcomes() {
    const board = await open(), once = [0x23, 0, 0x04, 0x40, 0x41, 0, 0x0f, 0x0b];
    const good = await measure(trial(right));
    assert.equal(good.outcome, OUTCOME.ok);
    assert(good.peak_flops > 1e8 && good.drift > 0.1 && good.drift < 10, JSON.stringify(good));
    const impossible = await measure(trial(right, {artefact: put(artefact(right, 1e12))}));
    assert.equal(impossible.outcome, OUTCOME.wrongResult);
    assert.match(impossible.text, /ns per run is faster than this core can be/);
    assert(good.checked && good.samples_ns.length >= 5 && good.runs >= 1 && good.stop >= 1 && good.error === 0, JSON.stringify(good));
    assert.equal((await measure(trial(kernel(all(1.7))))).error < 1, true);
    for (const [outcome, text, code] of [
      [OUTCOME.wrongResult, /4 of 4 elements are wrong/, kernel(all(2.5))],
      [OUTCOME.wrongResult, /1 of 4 elements are wrong; the worst is element 3/, kernel(all(1.5).slice(0, -store(0, 0).length))],
      [OUTCOME.wrongResult, /left an element of an output/, kernel([...once, ...all(1.5), 0x41, 1, 0x24, 0])],
      [OUTCOME.crash, /returned an error/, kernel(all(1.5), 1)],
      [OUTCOME.crash, /outside of its arguments/, kernel([...all(1.5), ...store(1, 16)])],
      [OUTCOME.crash, /unreachable/, kernel([0x00])],
      [OUTCOME.timeout, /phase warm took longer than 300 ms/, hangs],
      [OUTCOME.linkError, /no WebAssembly/, [1, 2, 3, 4]],
      [OUTCOME.linkError, /./, [0, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 99]]]) {
      const result = await measure(trial(code));
      assert.equal(result.outcome, outcome, JSON.stringify(result));
      assert.match(result.text, text);
      assert.equal(result.blame, 1);
    }
    assert.equal((await measure(trial(right))).outcome, OUTCOME.ok); // in a worker of its own after the one that hung
    assert.equal((await measure(trial(right, {race_ns: 1e-9}))).stop, 4);
    const missing = await measure(trial(right, {reference: {digest: new Uint8Array(32), size: 8}}));
    assert.deepEqual([missing.outcome, missing.blame, missing.text], [OUTCOME.infra, 3, 'no such blob']);
    board.close();
    await board.closed;
  },

  /** A board whose clock is made up: a run takes a millisecond, while a neighbour is there two. */
  async pace() {
    let neighbours = 0; // tries that one is still there
    const usual = new Usual(), candidate = {run: runs => runs * (neighbours > 0 ? 2 : 1)};
    const pace = {usual, read: () => (neighbours-- > 0 ? 3 : 2)};
    for (const ms of [2.1, 2, 2.02, 2.01]) usual.take(ms);
    assert.equal(usual.ms, 2);
    assert(usual.band > 0.049 && usual.band < 0.051, 'no band is narrower');
    assert(usual.isOut(1.5) && usual.isOut(0.6) && !usual.isOut(1.02) && !usual.isOut(0));
    for (let i = 0; i < 64; i++) usual.take(i % 2 ? 4 : 8);
    assert.deepEqual([usual.ms, usual.band], [4, 0.25], 'the newest count, and no band is wider');
    for (let i = 0; i < 64; i++) usual.take(2);
    const policy = {...POLICY, sample_ns: 1e6, total_ns: 1e9};
    const of = () => time([candidate], policy, [1], 0, pace)[0];
    const quiet = of();
    assert.deepEqual([quiet.drift, quiet.again, quiet.stop], [1, 0, STOP.converged]);
    neighbours = 4;
    const disturbed = of();
    assert(disturbed.again >= 2 && disturbed.drift === 1, JSON.stringify(disturbed));
    assert(disturbed.samples_ns.every(ns => ns === 1e6 * disturbed.runs), 'none is kept that was disturbed');
    neighbours = Infinity;
    const slow = of();
    assert.deepEqual([slow.drift, slow.again], [1.5, 7], JSON.stringify(slow));
    assert(usual.isOut(slow.drift));
    neighbours = 0;
    assert.equal(time([candidate], policy, [1], 0, undefined)[0].drift, 0, 'no pace, no drift');
    const stopWhere = read => time([candidate], policy, [1], 0.8e6, {usual, read})[0].stop;
    assert.equal(stopWhere(() => 2), STOP.raced);
    assert.notEqual(stopWhere(() => 3), STOP.raced, 'the neighbour is not its fault');
  },

  async rivals() {
    const board = await open();
    const rivals = [right, kernel(all(9)), kernel(all(1.6))].map(code => put(artefact(code)));
    const result = await measure(trial(right, {rivals}));
    assert.equal(result.outcome, OUTCOME.ok);
    assert.deepEqual(result.rivals.map(rival => rival.outcome), [OUTCOME.ok, OUTCOME.wrongResult, OUTCOME.ok]);
    assert.equal(result.rivals[0].samples_ns.length, result.samples_ns.length);
    board.close();
  },

  async leases() {
    const board = await open(), slow = trial(hangs, {lease: 6, deadlines_ms: {warm: 60000}});
    await measure(trial(right, {lease: 6}));
    Tracker.last.say('TRIAL', trial(right, {lease: 5}));
    assert.match((await hear('ERROR')).text, /newer lease/);
    Tracker.last.say('TRIAL', slow);
    Tracker.last.say('LEASE_LOST', {lease: 6}); // its trial is void: no result, and the board is free
    assert.equal((await measure(trial(right, {lease: 7}))).outcome, OUTCOME.ok);
    const other = trial(hangs, {lease: 7, deadlines_ms: {warm: 60000}});
    Tracker.last.say('TRIAL', other);
    setTimeout(() => Tracker.last.say('CANCEL', {scope: 1, id: other.trial, lease: 7}), 50);
    assert.deepEqual((({outcome, text}) => [outcome, text])(await hear('TRIAL_RESULT')), [OUTCOME.infra, 'cancelled']);
    board.close();
  },

  async comes_back() {
    const board = await open(), one = trial(right);
    Tracker.last.say('TRIAL', one);
    const first = await hear('TRIAL_RESULT');
    Tracker.last.close();
    assert.deepEqual((await hear('BOARD_UP')).running, [{trial: one.trial, attempt: 1, lease: 5}]);
    assert.deepEqual(await hear('TRIAL_RESULT'), first);
    board.close();
  },

  /** The next key comes masked; the board keeps it, and comes back with it. */
  async next_key() {
    const kept = [], secret = Buffer.alloc(32, 0x21), board = await open({keyChanged: text => kept.push(text)});
    const offer = by => {
      const numbers = Buffer.from([2, 0, 0, 0, 0x50, 0xc3, 0, 0]), peerNonce = Tracker.last.hello.nonce;
      const hmac = (word, rest) => createHmac('sha256', Buffer.alloc(32, by)).update(`${word}\0`).update(peerNonce).update(NONCE).update(numbers).update(rest).digest();
      const mask = hmac('kiln next key mask', ''), masked = secret.map((byte, i) => byte ^ mask[i]);
      Tracker.last.say('KEY_OFFER', {generation: 2, secret: new Uint8Array(masked), last_day: 50000, proof: new Uint8Array(hmac('kiln next key', masked))});
    };
    offer(7);
    assert.deepEqual(await hear('KEY_TAKEN'), {generation: 2});
    assert.deepEqual(kept, [`kiln-keys 1\nboard/page/2 ${'21'.repeat(32)}\n`]);
    Tracker.secret = kept[0];
    Tracker.last.close();
    await hear('BOARD_UP');
    assert.equal(Tracker.last.hello.key, 'board/page/2');
    offer(7); // by who knows the older key
    await assert.rejects(board.closed, /not from who knows this one/);
    Tracker.secret = KEY;
    const other = await open({keyChanged: () => { throw new Error('no röom'); }});
    offer(7);
    assert.deepEqual(await hear('KEY_TAKEN'), {generation: 2, text: 'no r?om'});
    other.close();
    const forgetful = await open();
    offer(7);
    assert.match((await hear('KEY_TAKEN')).text, /keeps no new keys/);
    forgetful.close();
  },

  async impostor() {
    Tracker.secret = KEY.replaceAll('07', '08');
    const board = serve(URL_OF_TRACKER, {key: KEY, WebSocket: Tracker});
    await assert.rejects(board.closed, /is not the tracker of this key/);
    assert.deepEqual(Tracker.said, []);
    assert.throws(() => serve(URL_OF_TRACKER, {key: 'admin/ann/1 00', WebSocket: Tracker}), /no key of a board/);
  },
};

await cases[process.argv[2]]();
