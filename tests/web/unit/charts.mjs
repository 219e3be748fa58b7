import assert from 'node:assert/strict';
import test from 'node:test';
import {load} from './pages.mjs';

const {extent, logTicks, padded, scale, ticks, timeTicks} = await load('chart/scale.js');
const {bestSoFar, Nearest, roof, thinned} = await load('chart/series.js');
const {layered, memoryOverTime} = await load('chart/layers.js');

test('ticks are round numbers inside the domain', () => {
  assert.deepEqual(ticks(0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  assert.deepEqual(ticks(-3, 17, 4), [0, 5, 10, 15]);
  assert.deepEqual(ticks(0.998, 1.004, 3), [0.998, 1, 1.002, 1.004]);
  assert.deepEqual(ticks(5, 5), [5]);
});

test('logarithmic ticks are few over many decades and some within one', () => {
  const many = logTicks(1, 1e12);
  assert.ok(many.length >= 3 && many.length <= 8, String(many));
  const within = logTicks(2.1, 8);
  assert.ok(within.length >= 2 && within.every(value => value >= 2 && value <= 8.1), String(within));
  assert.ok(logTicks(1.31, 1.33).length >= 2, 'even where no round number is inside');
});

test('ticks of time are at whole units', () => {
  for (const [low, high, unit] of [[0, 50_000, 10_000], [3, 3 * 3600e3, 18e5], [0, 9 * 864e5, 1728e5]])
    for (const at of timeTicks(low, high)) assert.equal(at % unit, 0);
  assert.ok(timeTicks(0, 400 * 864e5).length <= 14);
});

test('scales go there and back', () => {
  for (const kind of ['linear', 'log', 'time']) {
    const at = scale(kind, [2, 200], [10, 110]);
    assert.ok(Math.abs(at(2) - 10) < 1e-9 && Math.abs(at(200) - 110) < 1e-9, kind);
    assert.ok(Math.abs(at.invert(at(37)) - 37) < 1e-9, kind);
  }
  assert.ok(Number.isFinite(scale('linear', [3, 3], [0, 1])(3)), 'one value is no division by zero');
});

test('extents skip what is no number and hold any number of values', () => {
  assert.equal(extent([]), undefined);
  assert.deepEqual(extent([NaN, 3, undefined, -1]), [-1, 3]);
  assert.deepEqual(extent(new Float64Array(300000).fill(2)), [2, 2]);
  const [low, high] = padded([0.001, 1000], 'log');
  assert.ok(low > 0 && low < 0.001 && high > 1000);
});

test('the best so far only falls, skips failures and goes on to the end', () => {
  assert.deepEqual(bestSoFar([[0, 9], [1, 0], [2, 7], [3, 8], [4, 5], [6, 6]]), [[0, 9], [2, 7], [4, 5], [6, 5]]);
  assert.deepEqual(bestSoFar([[0, 0], [1, NaN]]), []);
});

test('a thinned cloud keeps the lowest and highest of each part', () => {
  const ys = Array.from({length: 10000}, (_, k) => Math.sin(k / 50));
  ys[4321] = -7;
  ys[777] = NaN;
  const kept = thinned(ys.map((_, k) => k), ys, 400);
  assert.ok(kept.length <= 400 && kept.includes(4321) && !kept.includes(777));
  assert.ok(kept.every((index, k) => k === 0 || index > kept[k - 1]));
  assert.deepEqual(thinned([1, 2], [3, 4], 10), [0, 1]);
});

test('the nearest point is found, also beyond the edge of its square, and none when all are far', () => {
  const search = new Nearest([10, 31, NaN, 200], [10, 10, 5, 200]);
  assert.equal(search.find(33, 12), 1);
  assert.equal(search.find(100, 100), -1);
  assert.equal(search.find(12, 9), 0);
});

test('a roof is the lower of peak and memory', () => {
  assert.equal(roof(2, 100, 10), 20);
  assert.equal(roof(50, 100, 10), 100);
});

test('nodes are below what they use, and none stands on another', () => {
  const nodes = [{id: 'a', outputs: ['x']}, {id: 'b', inputs: ['x'], outputs: ['y']}, {id: 'c', inputs: ['x'], outputs: ['z']}, {id: 'd', inputs: ['y', 'z', 'x', 'weights'], outputs: ['o']}];
  const {nodes: place, edges, layers, lanes} = layered(nodes);
  assert.deepEqual([...place.values()].map(spot => spot.layer), [0, 1, 1, 2]);
  assert.equal(new Set([...place.values()].map(spot => `${spot.layer}/${spot.lane}`)).size, 4);
  assert.deepEqual([edges.length, layers, lanes], [5, 3, 2]);
});

test('without names of tensors the steps are a chain', () => {
  const {edges, layers} = layered([{id: 1}, {id: 2}, {id: 3}]);
  assert.deepEqual([edges.map(edge => edge.slice(0, 2)), layers], [[[1, 2], [2, 3]], 3]);
  assert.equal(layered([]).layers, 0);
});

test('memory over time is the sum of what lives at each step', () => {
  assert.deepEqual(memoryOverTime([{bytes: 10, first: 0, last: 1}, {bytes: 5, first: 1, last: 9}], 3), [10, 15, 5]);
});
