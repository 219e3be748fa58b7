// Runs WebAssembly kernels under node, job after job as protocol.h has them: each is linked with runner_wasm.c by
// LLVM's linker and gets the C library's mathematics from Math.
'use strict';
const {execFileSync} = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

const TEXT_BYTES = 1024;
const PAGE_BYTES = 65536;

// What a killed runner left carries its number.
function sweep() {
  for (const name of fs.readdirSync(os.tmpdir())) {
    const [, pid] = /^kiln-wasm-(\d+)-\w{6}$/.exec(name) || [];
    if (!pid) continue;
    try {
      process.kill(Number(pid), 0);
    } catch (error) {
      if (error.code === 'ESRCH') fs.rmSync(path.join(os.tmpdir(), name), {recursive: true, force: true});
    }
  }
}

sweep();
const folder = fs.mkdtempSync(path.join(os.tmpdir(), `kiln-wasm-${process.pid}-`));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));
for (const signal of ['SIGHUP', 'SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(1));

function compileRunner() {
  const object = path.join(folder, 'runner.o');
  execFileSync('clang-19', ['--target=wasm32', '-O2', '-ffreestanding', '-nostdlib', '-mbulk-memory', '-I',
    path.resolve(__dirname, '../..'), '-c', path.join(__dirname, 'runner_wasm.c'), '-o', object]);
  return object;
}

function link(runner, bytes) {
  const kernel = path.join(folder, 'kernel.o'), linked = path.join(folder, 'linked.wasm');
  fs.writeFileSync(kernel, bytes);
  execFileSync('wasm-ld-19', ['--no-entry', '--allow-undefined', '--export-memory', runner, kernel, '-o', linked]);
  return fs.readFileSync(linked);
}

function halfToNumber(bits) {
  const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24);
}

// To nearest, ties to even, in one rounding: in units of the last place every double of that size is exact.
function numberToHalf(value) {
  const size = Math.abs(value), sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  let exponent = size ? Math.floor(Math.log2(size)) : -14;
  if (2 ** exponent > size) exponent--;
  if (2 ** (exponent + 1) <= size) exponent++;
  exponent = Math.max(exponent, -14);
  const units = size / 2 ** (exponent - 10);
  let whole = Math.floor(units);
  const rest = units - whole;
  if (rest > 0.5 || (rest === 0.5 && whole % 2)) whole++;
  return sign | (exponent + 14) * 1024 + whole;
}

// Functions of kernel_services.def by name: float ones round what the double one gives.
function service(name, memory) {
  const bytes = () => new Uint8Array(memory().buffer);
  const own = {
    memcpy: (to, from, n) => (bytes().copyWithin(to, from, from + n), to),
    memmove: (to, from, n) => (bytes().copyWithin(to, from, from + n), to),
    memset: (to, value, n) => (bytes().fill(value, to, to + n), to),
    __extendhfsf2: halfToNumber,
    __extendhfdf2: halfToNumber,
    __truncsfhf2: numberToHalf,
    __truncdfhf2: numberToHalf,
    fmod: (a, b) => a % b,
    fmodf: (a, b) => a % b,
  };
  if (own[name]) return own[name];
  if (Math[name]) return Math[name];
  const double = Math[name.replace(/f$/, '')];
  return double && ((...args) => Math.fround(double(...args)));
}

function instantiate(bytes) {
  let instance;
  const module = new WebAssembly.Module(bytes), env = {};
  for (const wanted of WebAssembly.Module.imports(module)) {
    env[wanted.name] = service(wanted.name, () => instance.exports.memory);
    if (!env[wanted.name]) throw new Error(`no function ${wanted.name}`);
  }
  instance = new WebAssembly.Instance(module, {env});
  return instance.exports;
}

function run(job, runner) {
  const kernel = instantiate(link(runner, job.object));
  const total = job.args.reduce((sum, arg) => sum + arg.length + 64, job.scratch + job.workerScratch + 1024);
  kernel.memory.grow(Math.ceil(total / PAGE_BYTES) + 1);
  const places = job.args.map((arg, i) => {
    const place = kernel.take(arg.length);
    new Uint8Array(kernel.memory.buffer).set(arg, place);
    kernel.bind(i, place);
    return place;
  });
  const scratch = kernel.take(job.scratch + 64 + job.workerScratch);
  if (job.prepares && kernel.prepare(scratch) !== 0) throw new Error('kiln_prepare failed');
  for (const garbage of [0x7f, 0xfe]) {
    new Uint8Array(kernel.memory.buffer).fill(garbage, scratch, scratch + job.scratch + job.workerScratch);
    if (kernel.run(scratch) !== 0) throw new Error('kiln_run failed');
  }
  return job.args.map((arg, i) => Buffer.from(kernel.memory.buffer, places[i], arg.length));
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
  const [objectBytes, argCount, scratch, workerScratch, , prepares] =
      [0, 1, 2, 3, 4, 5].map(i => Number(head.readBigUInt64LE(8 * i)));
  const job = {object: take(objectBytes), args: [], scratch, workerScratch, prepares};
  for (let i = 0; i < argCount; i++) job.args.push(take(Number(take(8).readBigUInt64LE(0))));
  return job;
}

function send(bytes) {
  for (let at = 0; at < bytes.length;) at += fs.writeSync(1, bytes, at, bytes.length - at);
}

const runner = compileRunner();
for (let job; (job = takeJob());) {
  const text = Buffer.alloc(TEXT_BYTES);
  let outputs = [];
  try {
    outputs = run(job, runner);
  } catch (error) {
    text.write(String(error.message).slice(0, TEXT_BYTES - 1) || 'failed');
  }
  send(text);
  outputs.forEach(send);
}
