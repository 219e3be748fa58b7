// Runs WebAssembly kernels under node, job after job as protocol.h has them, by the package's own loader.
import fs from 'node:fs';
import {instantiate} from '../../js/kernel.js';

const TEXT_BYTES = 1024;
const PAGE_BYTES = 65536;
const STACK_BYTES = 65536;
// base/kernel_abi.h where pointers have 32 bits.
const ALIGNMENT = 64;
const TENSOR_BYTES = 40;
const SERVICES_BYTES = 20;

const align = place => Math.ceil(place / ALIGNMENT) * ALIGNMENT;

/** Puts arguments, descriptors and services behind the stack: `place(bytes)` gives aligned addresses. */
function layOut(job) {
  let used = STACK_BYTES;
  const place = size => {
    const at = align(used);
    used = at + size;
    return at;
  };
  const data = job.args.map(arg => place(arg.length));
  const scratch = place(align(job.scratch) + job.workerScratch);
  const tensors = job.args.map(() => place(TENSOR_BYTES));
  const args = place(4 * job.args.length), services = place(SERVICES_BYTES);
  const shared = job.workers > 1, initial = Math.ceil(used / PAGE_BYTES);
  const memory = new WebAssembly.Memory(shared ? {initial, maximum: initial, shared} : {initial});
  const words = new Uint32Array(memory.buffer), bytes = new Uint8Array(memory.buffer);
  job.args.forEach((arg, i) => {
    bytes.set(arg, data[i]);
    words[tensors[i] / 4] = data[i];
    words[args / 4 + i] = tensors[i];
  });
  words.set([1, 1, 0, 0, scratch], services / 4); // version, workers, host, parallel_for, scratch
  return {memory, bytes, data, scratch, args, services};
}

async function run(job) {
  const {memory, bytes, data, scratch, args, services} = layOut(job);
  const {exports} = await instantiate(await WebAssembly.compile(job.object), memory, STACK_BYTES);
  if (job.prepares && exports.kiln_prepare(args, services) !== 0) throw new Error('kiln_prepare failed');
  for (const garbage of [0x7f, 0xfe]) {
    bytes.fill(garbage, scratch, scratch + align(job.scratch) + job.workerScratch);
    if (exports.kiln_run(args, services) !== 0) throw new Error('kiln_run failed');
  }
  return job.args.map((arg, i) => Buffer.from(bytes.slice(data[i], data[i] + arg.length)));
}

// Exactly so many bytes of standard input, or null at its end.
function take(size) {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at < size;) {
    let n;
    try {
      n = fs.readSync(0, bytes, at, size - at, null);
    } catch (error) {
      if (error.code === 'EAGAIN') continue;
      throw error;
    }
    if (n === 0) return null;
    at += n;
  }
  return bytes;
}

function takeJob() {
  const head = take(48);
  if (!head) return null;
  const [objectBytes, argCount, scratch, workerScratch, workers, prepares] =
      [0, 1, 2, 3, 4, 5].map(i => Number(head.readBigUInt64LE(8 * i)));
  const job = {object: take(objectBytes), args: [], scratch, workerScratch, workers, prepares};
  for (let i = 0; i < argCount; i++) job.args.push(take(Number(take(8).readBigUInt64LE(0))));
  return job;
}

function send(bytes) {
  for (let at = 0; at < bytes.length;) at += fs.writeSync(1, bytes, at, bytes.length - at);
}

for (let job; (job = takeJob());) {
  const text = Buffer.alloc(TEXT_BYTES);
  let outputs = [];
  try {
    outputs = await run(job);
  } catch (error) {
    text.write(String(error.message).slice(0, TEXT_BYTES - 1) || 'failed');
  }
  send(text);
  outputs.forEach(send);
}
