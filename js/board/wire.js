// Messages of a board to a tracker as bytes: msgpack, messages by Kiln's table (schema.js), frames (proto/proto.h).
import {MESSAGES, RECORDS} from '../schema.js';

const MAGIC = 0x314e4c4b;
const HEADER_BYTES = 16;
/** proto/proto.h: the body of a message, and of a frame with blob bytes. */
const BODY_MAX = 256 << 10;
const DEPTH_MAX = 16;

/** Frames of blob bytes, which are no messages, and the flag of the last one. */
export const DATA = 127;
export const END = 1;

const utf8 = new TextEncoder();
const text = new TextDecoder('utf-8', {fatal: true});

/** A writer of msgpack. */
class Packer {
  #bytes = [];

  #number(head, size, write) {
    const view = new DataView(new ArrayBuffer(size));
    write(view);
    this.#bytes.push(head, ...new Uint8Array(view.buffer));
  }

  integer(value) {
    if (typeof value === 'number' && value < 128) this.#bytes.push(value);
    else this.#number(0xcf, 8, view => view.setBigUint64(0, BigInt(value)));
  }

  real(value) {
    this.#number(0xcb, 8, view => view.setFloat64(0, value));
  }

  flag(value) {
    this.#bytes.push(value ? 0xc3 : 0xc2);
  }

  #block(head, bytes) {
    this.#number(head, 4, view => view.setUint32(0, bytes.length));
    for (const byte of bytes) this.#bytes.push(byte);
  }

  string(value) {
    this.#block(0xdb, utf8.encode(value));
  }

  binary(value) {
    this.#block(0xc6, value);
  }

  array(count) {
    this.#number(0xdd, 4, view => view.setUint32(0, count));
  }

  map(count) {
    this.#number(0xdf, 4, view => view.setUint32(0, count));
  }

  finish() {
    return Uint8Array.from(this.#bytes);
  }
}

/** One msgpack value at `view`'s `at`: maps as Map, integers beyond 2^53 as BigInt, binary as views. Throws where it is cut. */
class Unpacker {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = 0;
  }

  #take(size) {
    const at = this.at;
    if (size > this.bytes.length - at) throw new Error('a message that is cut');
    this.at += size;
    return at;
  }

  #unsigned(size) {
    const at = this.#take(size);
    if (size === 1) return this.view.getUint8(at);
    if (size === 2) return this.view.getUint16(at);
    if (size === 4) return this.view.getUint32(at);
    const value = this.view.getBigUint64(at);
    return value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
  }

  #signed(size) {
    const at = this.#take(size);
    if (size === 1) return this.view.getInt8(at);
    if (size === 2) return this.view.getInt16(at);
    return size === 4 ? this.view.getInt32(at) : Number(this.view.getBigInt64(at));
  }

  #slice(size) {
    const at = this.#take(size);
    return this.bytes.subarray(at, at + size);
  }

  #array(count, depth) {
    const items = [];
    for (let i = 0; i < count; i++) items.push(this.value(depth));
    return items;
  }

  #map(count, depth) {
    const items = new Map();
    for (let i = 0; i < count; i++) items.set(this.value(depth), this.value(depth));
    return items;
  }

  value(depth = DEPTH_MAX) {
    if (depth === 0) throw new Error('a message that is nested too deeply');
    const head = this.#unsigned(1), low = head & 15;
    if (head < 0x80) return head;
    if (head < 0x90) return this.#map(low, depth - 1);
    if (head < 0xa0) return this.#array(low, depth - 1);
    if (head < 0xc0) return text.decode(this.#slice(head & 31));
    if (head >= 0xe0) return head - 256;
    switch (head) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: case 0xc5: case 0xc6: return this.#slice(this.#unsigned(1 << head - 0xc4));
      case 0xca: return this.view.getFloat32(this.#take(4));
      case 0xcb: return this.view.getFloat64(this.#take(8));
      case 0xcc: case 0xcd: case 0xce: case 0xcf: return this.#unsigned(1 << head - 0xcc);
      case 0xd0: case 0xd1: case 0xd2: case 0xd3: return this.#signed(1 << head - 0xd0);
      case 0xd9: case 0xda: case 0xdb: return text.decode(this.#slice(this.#unsigned(1 << head - 0xd9)));
      case 0xdc: case 0xdd: return this.#array(this.#unsigned(2 << head - 0xdc), depth - 1);
      case 0xde: case 0xdf: return this.#map(this.#unsigned(2 << head - 0xde), depth - 1);
      default: throw new Error(`a message with a value of an unknown kind (${head})`);
    }
  }
}

/** The value of some msgpack bytes. */
export const unpack = bytes => new Unpacker(bytes).value();

const WRITE = {
  u32: (packer, value) => packer.integer(value),
  u64: (packer, value) => packer.integer(value),
  f64: (packer, value) => packer.real(value),
  flag: (packer, value) => packer.flag(value),
  text: (packer, value) => packer.string(value),
  bytes: (packer, value) => packer.binary(value),
  digest: (packer, value) => packer.binary(value),
  u64s: (packer, values) => {
    packer.array(values.length);
    values.forEach(value => packer.integer(value));
  },
  nest: (packer, value, record) => writeRecord(packer, record, value),
  list: (packer, values, record) => {
    packer.array(values.length);
    values.forEach(value => writeRecord(packer, record, value));
  },
};

function writeRecord(packer, record, fields) {
  const present = RECORDS[record].filter(([, , name]) => fields[name] !== undefined);
  packer.map(present.length);
  for (const [key, kind, name, of] of present) {
    packer.integer(key);
    WRITE[kind](packer, fields[name], of);
  }
}

function readRecord(record, map) {
  const fields = {};
  for (const [key, kind, name, of] of RECORDS[record]) {
    const value = map.get(key);
    if (value === undefined) continue;
    if (kind === 'nest') fields[name] = readRecord(of, value);
    else if (kind === 'list') fields[name] = value.map(item => readRecord(of, item));
    else fields[name] = value;
  }
  return fields;
}

/** The frame of a message: `name` as in Kiln's table, `fields` those that are there. */
export function frame(name, fields, stream = 0) {
  const packer = new Packer(), [type, record] = MESSAGES[name];
  writeRecord(packer, record, fields);
  const body = packer.finish(), bytes = new Uint8Array(HEADER_BYTES + body.length), view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint8(4, type);
  view.setUint32(8, stream, true);
  view.setUint32(12, body.length, true);
  bytes.set(body, HEADER_BYTES);
  return bytes;
}

/** A frame of blob bytes. */
export function dataFrame(body, isLast, stream) {
  const bytes = new Uint8Array(HEADER_BYTES + body.length), view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint8(4, DATA);
  view.setUint8(5, isLast ? END : 0);
  view.setUint32(8, stream, true);
  view.setUint32(12, body.length, true);
  bytes.set(body, HEADER_BYTES);
  return bytes;
}

const NAMES = new Map(Object.entries(MESSAGES).map(([name, [type]]) => [type, name]));

/** Bytes to frames: {type, flags, stream, body}. */
export class FrameReader {
  #rest = new Uint8Array(0);

  /** All frames that are whole with these bytes. Throws where they are none. */
  take(bytes) {
    const all = new Uint8Array(this.#rest.length + bytes.length), frames = [];
    all.set(this.#rest);
    all.set(bytes, this.#rest.length);
    const view = new DataView(all.buffer);
    let at = 0;
    while (all.length - at >= HEADER_BYTES) {
      const size = view.getUint32(at + 12, true);
      if (view.getUint32(at, true) !== MAGIC || size > BODY_MAX) throw new Error('bytes that are no frame');
      if (all.length - at < HEADER_BYTES + size) break;
      const begin = at + HEADER_BYTES;
      frames.push({type: all[at + 4], flags: all[at + 5], stream: view.getUint32(at + 8, true), body: all.subarray(begin, begin + size)});
      at = begin + size;
    }
    this.#rest = all.slice(at);
    return frames;
  }
}

/** The message of a frame: {name, fields}; undefined: a board does not know it. */
export function message({type, body}) {
  const name = NAMES.get(type);
  return name && {name, fields: readRecord(MESSAGES[name][1], unpack(body))};
}
