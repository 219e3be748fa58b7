import assert from 'node:assert/strict';
import test from 'node:test';
import {load} from './pages.mjs';

const format = await load('format.js');

test('numbers have three digits and no exponent', () => {
  const cases = [[0, '0'], [0.0123456, '0.0123'], [1.005, '1.00'], [9.999, '10.0'], [12.34, '12.3'], [99.96, '100'], [123.4, '123'], [1234.5, '1,235'], [-2.5, '-2.50'], [NaN, '–'], [undefined, '–'], [Infinity, '–']];
  for (const [value, text] of cases) assert.equal(format.number(value), text, String(value));
});

test('whole numbers have commas between thousands', () => {
  assert.deepEqual([0, 999, 1000, 1234567].map(format.count), ['0', '999', '1,000', '1,234,567']);
});

test('times of kernels take the unit that fits, and zero is unknown', () => {
  assert.deepEqual([40.46, 3728.2, 1.5e6, 2e9, 0, -1].map(format.time), ['40.5 ns', '3.73 µs', '1.50 ms', '2.00 s', '–', '–']);
});

test('spans and ages are rounded as people say them', () => {
  assert.deepEqual([0, 42000, 119400, 185000, 7800000, 97200000, -1].map(format.span), ['0 s', '42 s', '119 s', '3 min 05 s', '2 h 10 min', '1 d 3 h', '–']);
  assert.deepEqual([500, 119000, 121000, 7200000, 172800000, -5].map(format.ago), ['0 s ago', '119 s ago', '2 min ago', '2 h ago', '2 days ago', '0 s ago']);
});

test('bytes, rates, shares and gains carry their unit', () => {
  assert.equal(format.bytes(1024), '1.00 KiB');
  assert.equal(format.bytes(0), '0 B');
  assert.equal(format.flops(2.7e11), '270 GFLOP/s');
  assert.equal(format.percent(0.123), '12 %');
  assert.equal(format.percent(undefined), '–');
  assert.equal(format.times(2.186), '2.19×');
  assert.equal(format.degrees(51200), '51.2 °C');
  assert.equal(format.degrees(undefined), '–');
});

test('only drawn identities are shortened', () => {
  assert.equal(format.shortId('fad222df1887d8d868a8051c087621e0'), 'fad222df');
  assert.equal(format.shortId('bench-of-ana'), 'bench-of-ana');
  assert.equal(format.shortKey('v2:6d14621a9f9665b9fe7501d951280fca'), '6d14621a');
});

test('a target is named by its processor and size', () => {
  assert.equal(format.targetName('cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4,features=+a+b,cores=2,threads=2'), 'cpu x86-64-v4 · 2 cores');
  assert.equal(format.targetName('cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v4,cores=8,threads=2'), 'cpu x86-64-v4 · 8 cores · 2 threads');
  assert.equal(format.targetName('cuda:sm_90a,model=h200'), 'cuda h200');
  assert.equal(format.targetName('cpu:wasm32-unknown-unknown'), 'cpu wasm32');
  assert.equal(format.targetName(undefined), '–');
});
