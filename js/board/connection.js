// One connection of a board to its tracker: WebSocket, the proof of its key, heartbeats, and blobs.
import {InvalidArgument, Unauthenticated} from '../errors.js';
import {DATA, END, FrameReader, dataFrame, frame, message} from './wire.js';

const VERSION_MIN = 5; // of the protocol: trackers since then prove the token
const VERSION = 6; // KILN_PROTO_VERSION_MAX
const BOARD = 1; // kiln_peer_role
const NONCE_BYTES = 32;
const UNAUTHENTICATED = new Unauthenticated().number;
const BLOB_MAX = 1 << 30;
const GRANT_BYTES = 512 << 10; // of a blob, before the tracker is let send as much again
const DATA_BYTES = 64 << 10; // of one frame
const STREAM_CREDIT = 1 << 20; // that a transfer may send before the tracker grants more
const SILENT_BEATS = 5;
const TEXT_MAX = 256; // of KEY_TAKEN

const utf8 = new TextEncoder();
const hex = bytes => Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join('');
const webcrypto = globalThis.crypto ?? (await import('node:crypto')).webcrypto;

function join(...parts) {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  parts.reduce((at, part) => (all.set(part, at), at + part.length), 0);
  return all;
}

/** The holder of "board/NODE/GENERATION SECRET", a line of the file that `kiln key new` writes. */
export class Key {
  constructor(text) {
    const found = /\b(board\/([\w.-]+)\/\d+) ([0-9a-f]{64})\b/.exec(text);
    if (!found) throw new InvalidArgument('no key of a board: give the text of the file that `kiln key new board/NODE` writes');
    [, this.name, this.node] = found;
    this.secret = Uint8Array.from(found[3].match(/../g), pair => parseInt(pair, 16));
  }

  /** HMAC-SHA-256 with the secret of a word that a zero byte ends, and of bytes. */
  async hmac(word, ...parts) {
    const secret = await webcrypto.subtle.importKey('raw', this.secret, {name: 'HMAC', hash: 'SHA-256'}, false, ['sign']);
    return new Uint8Array(await webcrypto.subtle.sign('HMAC', secret, join(utf8.encode(`${word}\0`), ...parts)));
  }

  /** The proof of `who` that it knows the secret (CHALLENGE in docs/reference/messages.md). */
  prove(who, peerNonce, trackerNonce, address) {
    return this.hmac(`kiln ${who}`, peerNonce, trackerNonce, [BOARD], utf8.encode(`${this.node}\0${address}`));
  }

  /** The text of the next generation's key, which KEY_OFFER carries masked (docs/reference/messages.md). */
  async open({generation, secret, last_day: lastDay = 0, proof}, ...nonces) {
    const numbers = new Uint8Array(8), view = new DataView(numbers.buffer);
    view.setUint32(0, generation, true);
    view.setUint32(4, lastDay, true);
    if (!proof || hex(await this.hmac('kiln next key', ...nonces, numbers, secret)) !== hex(proof))
      throw new Unauthenticated('a next key that is not from who knows this one');
    const mask = await this.hmac('kiln next key mask', ...nonces, numbers);
    return `kiln-keys 1\nboard/${this.node}/${generation} ${hex(secret.map((byte, i) => byte ^ mask[i]))}\n`;
  }
}

export const random = size => hex(webcrypto.getRandomValues(new Uint8Array(size)));

export class Connection {
  #socket;
  #reader = new FrameReader();
  #trackerNonce;
  #nonce = webcrypto.getRandomValues(new Uint8Array(NONCE_BYTES));
  #work = Promise.resolve(); // messages are taken in order, though proofs take a while
  #transfers = new Map(); // by stream: {content, got, resolve, reject, granted}
  #uploads = new Map(); // by stream: {bytes, ref, at, credit, resolve, reject}
  #nextStream = 1;
  #beat;
  #heard = 0;
  #why = new Error('the tracker closed the connection');

  /**
   * Dials `url` ("ws://HOST:PORT", "wss://..."). `opened()`, `message(name, fields)` and `closed(error)` are called
   * as it goes; nothing after `closed`. `keyOffered(text)` keeps the next key, or throws where it cannot.
   */
  constructor(url, key, boot, WebSocket, handler) {
    Object.assign(this, {url: new URL(url), key, handler});
    this.#socket = new WebSocket(url);
    this.#socket.binaryType = 'arraybuffer';
    this.#socket.onopen = () => this.send('HELLO', {
      version_min: VERSION_MIN, version_max: VERSION, role: BOARD, node: key.node, boot, software: 'kiln board for pages',
      nonce: this.#nonce, key: key.name,
    });
    this.#socket.onmessage = ({data}) => {
      this.#work = this.#work.then(() => this.#take(new Uint8Array(data))).catch(error => this.close(error));
    };
    this.#socket.onerror = () => {};
    this.#socket.onclose = () => this.#end();
  }

  send(name, fields, stream = 0) {
    if (this.#socket.readyState === 1) this.#socket.send(frame(name, fields, stream));
  }

  close(why) {
    this.#why = why;
    this.#socket.close();
  }

  #end() {
    clearInterval(this.#beat);
    for (const {reject} of [...this.#transfers.values(), ...this.#uploads.values()]) reject(this.#why);
    this.#transfers.clear();
    this.#uploads.clear();
    this.handler.closed(this.#why);
  }

  async #take(bytes) {
    this.#heard = 0;
    for (const one of this.#reader.take(bytes)) {
      if (one.type === DATA) {
        await this.#data(one);
        continue;
      }
      const known = message(one);
      if (known) await this.#message(known.name, known.fields, one.stream);
    }
  }

  async #message(name, fields, stream) {
    if (name === 'CHALLENGE') return this.#challenge(fields);
    if (name === 'WELCOME') return this.#welcome(fields);
    if (name === 'KEY_OFFER') return this.#takeKey(fields);
    if (name === 'PING') return this.send('PONG', {t_ns: fields.t_ns ?? 0, wall_ns: BigInt(Date.now()) * 1000000n}, stream);
    if (name === 'BLOB_PUT') return this.#begin(fields.blob, stream);
    if (this.#uploads.has(stream)) return this.#answered(name, fields, stream);
    if (name === 'ERROR' && this.#transfers.has(stream)) return this.#fail(stream, new Error(fields.text));
    if (name === 'ERROR' && stream === 0)
      this.#why = fields.code === UNAUTHENTICATED ? new Unauthenticated(fields.text) : new Error(fields.text);
    return this.handler.message(name, fields);
  }

  /** The tracker proves first that it knows the key: an impostor learns nothing. */
  async #challenge({nonce, proof}) {
    const {host} = this.url, expected = await this.key.prove('tracker', this.#nonce, nonce, host);
    if (hex(expected) !== hex(proof)) throw new Unauthenticated(`who listens at ${host} is not the tracker of this key, or does not know the key`);
    this.send('PROOF', {proof: await this.key.prove('peer', this.#nonce, nonce, host)});
    this.#trackerNonce = nonce;
  }

  /** The tracker answers by an end of the connection, so that the board comes back with the new key. */
  async #takeKey(offer) {
    const text = await this.key.open(offer, this.#nonce, this.#trackerNonce);
    let why = '';
    try {
      await this.handler.keyOffered(text);
    } catch (error) {
      why = String(error?.message ?? error).replace(/[^ -~]/g, '?').slice(0, TEXT_MAX) || 'it was not kept';
    }
    this.send('KEY_TAKEN', {generation: offer.generation, text: why || undefined});
  }

  #welcome({heartbeat_ms: ms}) {
    if (!this.#trackerNonce) throw new Unauthenticated(`who listens at ${this.url.host} has not proven that it knows the key`);
    this.#beat = setInterval(() => {
      if (++this.#heard > SILENT_BEATS) this.close(new Error('the tracker is silent'));
      this.send('PING', {});
    }, ms);
    this.handler.opened();
  }

  // ---- Blobs ----

  /** Brings a blob: its bytes, whose digest was checked. */
  fetch({digest, size}) {
    if (size > BLOB_MAX) return Promise.reject(new Error(`a blob of ${size} bytes`));
    const stream = this.#nextStream;
    this.#nextStream += 2;
    return new Promise((resolve, reject) => {
      this.#transfers.set(stream, {digest, size, got: 0, ungranted: 0, resolve, reject});
      this.send('BLOB_GET', {digest}, stream);
    });
  }

  /** Brings a blob to the tracker; gives its {digest, size} once it is stored there. */
  async put(bytes) {
    const ref = {digest: new Uint8Array(await webcrypto.subtle.digest('SHA-256', bytes)), size: bytes.length}, stream = this.#nextStream;
    this.#nextStream += 2;
    return new Promise((resolve, reject) => {
      this.#uploads.set(stream, {bytes, ref, at: 0, credit: STREAM_CREDIT, resolve, reject});
      this.send('BLOB_HAVE', {blobs: [ref]}, stream);
    });
  }

  /** Handles the tracker's answer to an upload. */
  #answered(name, fields, stream) {
    const upload = this.#uploads.get(stream), isMissing = name === 'BLOB_MISSING' && fields.blobs?.length;
    if (isMissing) this.send('BLOB_PUT', {blob: upload.ref}, stream);
    if (name === 'WINDOW') upload.credit += fields.bytes;
    if (isMissing || name === 'WINDOW') return this.#sendPieces(upload, stream);
    this.#uploads.delete(stream);
    return name === 'ERROR' ? upload.reject(new Error(fields.text)) : upload.resolve(upload.ref);
  }

  #sendPieces(upload, stream) {
    for (let size; upload.at < upload.bytes.length && (size = Math.min(DATA_BYTES, upload.bytes.length - upload.at)) <= upload.credit;) {
      const piece = upload.bytes.subarray(upload.at, upload.at += size);
      upload.credit -= size;
      this.#socket.send(dataFrame(piece, upload.at === upload.bytes.length, stream));
    }
  }

  #fail(stream, error) {
    this.#transfers.get(stream)?.reject(error);
    this.#transfers.delete(stream);
  }

  #begin(blob, stream) {
    const transfer = this.#transfers.get(stream);
    if (!transfer || blob.size !== transfer.size) throw new Error('a blob that was not asked for');
    transfer.content = new Uint8Array(blob.size);
  }

  async #data({stream, body, flags}) {
    const transfer = this.#transfers.get(stream);
    if (!transfer?.content || body.length > transfer.size - transfer.got) throw new Error('bytes of no blob');
    transfer.content.set(body, transfer.got);
    transfer.got += body.length;
    transfer.ungranted += body.length;
    if (flags & END) await this.#finish(stream, transfer);
    else if (transfer.ungranted >= GRANT_BYTES) {
      this.send('WINDOW', {bytes: transfer.ungranted}, stream);
      transfer.ungranted = 0;
    }
  }

  async #finish(stream, {content, got, size, digest, resolve}) {
    const found = new Uint8Array(await webcrypto.subtle.digest('SHA-256', content));
    if (got !== size || hex(found) !== hex(digest)) return this.#fail(stream, new Error('a blob that came damaged'));
    this.#transfers.delete(stream);
    return resolve(content);
  }
}
