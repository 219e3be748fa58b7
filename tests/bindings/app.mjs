// An application over the package: its folder is installed as npm would. Arguments: what `test_javascript.py` says.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import * as kiln from 'kiln';

const npy = (path, array) => {
  const bytes = fs.readFileSync(path), start = 10 + bytes.readUInt16LE(8);
  return new array(bytes.buffer.slice(bytes.byteOffset + start, bytes.byteOffset + bytes.length));
};

/** What a promise, or a function, fails with. */
async function failure(of) {
  try {
    await of();
  } catch (error) {
    assert(error instanceof kiln.KilnError, String(error.stack));
    assert.equal(error.name, error.constructor.name);
    return `${error.code} ${error.number} ${error.message}`;
  }
  return 'no error';
}

const cases = {
  async digits(path, images, labels, native) {
    const m = await kiln.load(path), x = npy(images, Float32Array), label = npy(labels, BigInt64Array), y = npy(native, Float32Array);
    assert.deepEqual(m.inputs, [{name: 'image', dtype: 'f32', shape: [1, 1, 8, 8]}]);
    assert.deepEqual(m.outputs, [{name: 'probability', dtype: 'f32', shape: [1, 10]}]);
    assert.match(m.metadata.target, /^cpu:wasm32/);
    const classOf = p => p.indexOf(Math.max(...p));
    let right = 0, alike = 0;
    for (let i = 0; i < label.length; i++) {
      const {probability} = await m.run({image: x.subarray(64 * i, 64 * i + 64)});
      right += classOf(probability) === Number(label[i]);
      alike += classOf(probability) === classOf(y.subarray(10 * i, 10 * i + 10));
    }
    console.log(`${(right / label.length).toFixed(4)} ${alike}/${label.length}`);
  },

  async memory(path) {
    const m = await kiln.load(fs.readFileSync(path)), x = m.input('image');
    x.fill(0.5);
    m.call();
    const bound = m.output('probability').slice();
    const {probability} = await m.run({image: new Float32Array(64).fill(0.5)});
    assert.deepEqual(probability, bound);
    assert.deepEqual((await m.run({image: x})).probability, bound, 'the own memory as an input');
    m.output('probability').fill(7);
    assert.deepEqual(probability, bound, 'what run gives is a copy');
    const times = m.profile(3);
    assert.deepEqual(times.map(({name}) => name), m.steps.map(({name}) => name));
    assert(times.every(({ms, action}) => ms > 0 || action === 'alias'));
    m.close();
    for (const use of [() => m.call(), () => m.run({image: x}), () => m.input('image'), () => m.profile()])
      assert.match(await failure(use), /^FAILED_PRECONDITION 9 the module is closed/);
  },

  async errors(path, other) {
    const bytes = fs.readFileSync(path), m = await kiln.load(path), x = new Float32Array(64);
    const rows = [
      [() => m.run({}), /^INVALID_ARGUMENT 3 the input image: f32\[1,1,8,8\] is missing/],
      [() => m.run({image: x, mask: x}), /no input mask; it has image: f32\[1,1,8,8\]/],
      [() => m.run({image: new Float64Array(64)}), /is a Float32Array, not Float64Array/],
      [() => m.run({image: 3}), /is a Float32Array, not Number/],
      [() => m.run({image: x.subarray(1)}), /has 64 elements, not 63/],
      [() => m.output('y'), /no output y; it has probability/],
      [() => kiln.load(7), /^INVALID_ARGUMENT 3 a module is a URL/],
      [() => kiln.load('/nowhere/m.wasm'), /^NOT_FOUND 5 \/nowhere\/m.wasm cannot be read/],
      [() => kiln.load(other), /^FAILED_PRECONDITION 9 .*--target wasm/],
      [() => kiln.load(bytes.subarray(0, 8)), /^INVALID_ARGUMENT 3 .*no module of Kiln/],
      [() => kiln.load(bytes.subarray(0, -5)), /^DATA_LOSS 14 the module is damaged/],
      [() => kiln.load(new Uint8Array(0)), /^DATA_LOSS/],
      [() => kiln.load(Buffer.from(bytes.toString('latin1').replace('"version":1', '"version":,'), 'latin1')), /^DATA_LOSS 14 the module is damaged/],
      [() => kiln.load(Buffer.from(bytes.toString('latin1').replace('"version":1', '"version":9'), 'latin1')), /^UNIMPLEMENTED 12 .*9.*newer/],
    ];
    for (const [of, wanted] of rows) assert.match(await failure(of), wanted);
  },

  async threads(path, alone) {
    const x = new Float32Array(64).map((_, i) => i / 64), modules = [];
    for (const [file, options, threads] of [[alone, {threads: 2}, 1], [path, {}, 2], [path, {threads: 1}, 1], [path, {threads: 7}, 2]]) {
      const m = await kiln.load(file, options);
      assert.equal(m.threads, threads);
      modules.push(m);
    }
    const {probability: wanted} = await modules[0].run({image: x});
    for (let i = 0; i < 300; i++) { // each run hands over a loop per kernel
      const {probability} = await modules[1 + i % 3].run({image: x});
      assert(probability.every((p, k) => Math.abs(p - wanted[k]) < 1e-5), `run ${i}: ${probability}`);
    }
    for (const threads of [0, 1.5, '2']) assert.match(await failure(() => kiln.load(path, {threads})), /^INVALID_ARGUMENT 3 threads/);
    modules[1].close(); // the others end with the program
  },

  async rows(path) {
    const m = await kiln.load(path), x = new Float32Array(12).map((_, i) => i + 1);
    assert.equal(m.rows('y'), 0, 'before the first run');
    for (const c of [[0, 1, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 1]]) {
      const {y} = await m.run({x, c: Uint8Array.from(c)}), kept = [...x].filter((_, i) => c[Math.floor(i / 3)]);
      assert.deepEqual([...y], kept);
      assert.equal(m.rows('y'), c.filter(Boolean).length);
      assert.deepEqual([...m.output('y')], [...kept, ...new Array(12 - kept.length).fill(0)], 'zeros behind the rows');
    }
    assert.deepEqual(m.outputs[0].shape, [4, 3]);
  },

  /** y = x + x, x [batch, 8] or (axis 1) [8, batch], in sizes 1, 4 and 8. */
  async sizes(path, axis) {
    const m = await kiln.load(path), xOf = size => new Float32Array(8 * size).map((_, i) => i % 13 - 6);
    assert.deepEqual(m.sizes, {dim: 'batch', min: 1, max: 8, takesAll: true, buckets: [1, 4, 8]});
    for (const size of [8, 1, 2, 3, 4, 5, 6, 7, 8]) {
      const x = xOf(size), {y} = await m.run({x});
      assert.deepEqual(y, x.map(v => v + v), `size ${size}`);
      assert.equal(m.inputs[0].shape[axis], size);
      assert.equal(m.rows('y'), m.outputs[0].shape[0]);
      m.input('x').fill(1.5);
      m.call();
      assert.deepEqual(m.output('y'), new Float32Array(8 * size).fill(3));
      assert(m.profile(2).every(({ms}) => ms >= 0));
    }
    for (const size of [0, 9, -1, 2.5]) assert.match(await failure(() => m.setSize(size)), /^OUT_OF_RANGE 11 batch is .*; the module takes 1 to 8/);
    assert.match(await failure(() => m.run({x: xOf(9)})), /batch is 9/);
    m.setSize(2);
    assert.match(await failure(() => m.run({x: new Float32Array(17)})), /has 16 elements, not 17/);
    assert.match(await failure(() => m.run({x: new Float64Array(24)})), /is a Float32Array, not Float64Array/);
    m.close();
    assert.match(await failure(() => m.setSize(1)), /closed/);
    const times = [9, 1, 3], timed = fs.readFileSync(path, 'latin1').replace(/"ns":0/g, () => `"ns":${times.shift()}`);
    const measured = await kiln.load(Buffer.from(timed, 'latin1')), flopsOf = size => (measured.setSize(size), measured.steps[0].flops);
    assert.deepEqual([1, 3, 4, 5, 8].map(flopsOf), [8, 32, 32, 32, 64], '5 is split into runs of 4');
    for (const size of [5, 6, 7]) assert.deepEqual((await measured.run({x: xOf(size)})).y, xOf(size).map(v => v + v));
  },

  async listed_sizes(path, one) {
    const m = await kiln.load(path);
    assert.deepEqual(m.sizes, {dim: 'batch', min: 2, max: 6, takesAll: false, buckets: [2, 4, 6]});
    for (const size of [2, 4, 6]) {
      const {y} = await m.run({x: new Float32Array(8 * size)});
      assert(y.length === 8 * size && y.every(v => Math.abs(v - 1 / size) < 1e-5));
    }
    assert.match(await failure(() => m.run({x: new Float32Array(24)})), /^OUT_OF_RANGE 11 batch is 3; the module takes 2, 4, 6/);
    const single = await kiln.load(one);
    assert.equal(single.sizes, undefined);
    assert.match(await failure(() => single.setSize(1)), /^INVALID_ARGUMENT 3 the module has one size only/);
  },

  async server(path) {
    const server = http.createServer((request, response) => {
      if (request.url !== '/m.wasm') response.statusCode = 404;
      response.end(request.url === '/m.wasm' ? fs.readFileSync(path) : '');
    });
    await new Promise(done => server.listen(0, '127.0.0.1', done));
    const at = `http://127.0.0.1:${server.address().port}`;
    assert.equal((await kiln.load(new URL(`${at}/m.wasm`))).inputs.length, 1);
    assert.equal((await kiln.load(await fetch(`${at}/m.wasm`))).inputs.length, 1);
    assert.match(await failure(() => kiln.load(`${at}/n.wasm`)), /^NOT_FOUND 5 .*404/);
    await new Promise(done => {
      server.close(done);
      server.closeAllConnections?.();
    });
    assert.match(await failure(() => kiln.load(`${at}/m.wasm`)), /^UNAVAILABLE 13/);
  },
};

const [, , name, ...args] = process.argv;
await cases[name](...args);
