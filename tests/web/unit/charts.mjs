import assert from 'node:assert/strict';
import test from 'node:test';
import {load} from './pages.mjs';

const {extent, logTicks, padded, scale, ticks, timeTicks} = await load('chart/scale.js');
const {bestSoFar, Nearest, roof, thinned} = await load('chart/series.js');
const {layered} = await load('chart/layers.js');
const {stacked} = await load('chart/steps.js');
const {inspectionOf, layoutOf, memoryOf, readersOf} = await load('inspection.js');

const SIZE = {node: 100, lane: 10, gap: 20};

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

/** Checks what holds for every layout: layers go down, and nothing stands on anything else. */
function checkLayout(nodes, {places, routes, layers, width}) {
  const spots = new Map();
  for (const [id, item] of places) spots.set(item, id);
  for (const route of routes) for (const point of route.points) if (!spots.has(point)) spots.set(point, `${route.from} passes ${point.layer}`);
  const all = [...spots.keys()];
  for (const a of all) {
    assert.ok(a.x - a.width / 2 >= -1 && a.x + a.width / 2 <= width + 1 && a.layer < layers);
    for (const b of all) if (a !== b && a.layer === b.layer) assert.ok(Math.abs(a.x - b.x) >= (a.width + b.width) / 2, `${spots.get(a)} and ${spots.get(b)}`);
  }
  for (const {from, to, points} of routes) {
    assert.equal(points[0], places.get(from));
    assert.equal(points.at(-1), places.get(to));
    points.slice(1).forEach((point, index) => assert.equal(point.layer, points[index].layer + 1));
  }
}

test('nodes are below what they read, branches stand side by side, and none stands on another', () => {
  const nodes = [{id: 0, sources: []}, {id: 1, sources: [0]}, {id: 2, sources: [0]}, {id: 3, sources: [0, 1, 2]}];
  const found = layered(nodes, SIZE);
  checkLayout(nodes, found);
  assert.deepEqual([...found.places.values()].map(spot => spot.layer), [0, 1, 1, 2]);
  assert.deepEqual([found.routes.length, found.layers, found.isChain], [5, 3, false]);
  assert.equal(found.routes.find(route => route.from === 0 && route.to === 3).points.length, 3, 'an edge over a layer has a place in it');
});

test('skips of a residual network pass beside a straight chain', () => {
  const nodes = [{id: 0, sources: []}];
  for (let block = 0; block < 8; block++) nodes.push({id: 2 * block + 1, sources: [2 * block]}, {id: 2 * block + 2, sources: [2 * block, 2 * block + 1]});
  const found = layered(nodes, SIZE);
  checkLayout(nodes, found);
  assert.equal(new Set([...found.places.values()].map(spot => spot.x)).size, 1, 'the chain is straight');
  const passing = found.routes.filter(route => route.points.length > 2);
  assert.equal(passing.length, 8);
  for (const {points} of passing) assert.ok(Math.abs(points[1].x - points[0].x) >= 75, 'a skip is drawn beside the node that it goes around');
  assert.ok(found.width < 300, String(found.width));
});

test('edges of one node share their way, and crossings are undone', () => {
  const wide = [{id: 'a', sources: []}, {id: 'b', sources: []}, {id: 'c', sources: ['b']}, {id: 'd', sources: ['a']}, {id: 'e', sources: ['c']}, {id: 'f', sources: ['d']}, {id: 'g', sources: ['a', 'e', 'f']}];
  const found = layered(wide, SIZE);
  checkLayout(wide, found);
  const side = id => Math.sign(found.places.get(id).x - found.width / 2);
  assert.ok(side('a') === side('d') && side('d') === side('f') && side('b') === side('c') && side('c') === side('e'), 'no chain crosses another');
  const far = [{id: 0, sources: []}, {id: 1, sources: [0]}, {id: 2, sources: [1]}, {id: 3, sources: [0, 2]}, {id: 4, sources: [0, 3]}];
  const routes = layered(far, SIZE).routes.filter(route => route.from === 0 && route.points.length > 2);
  assert.equal(routes[0].points[1], routes[1].points[1]);
});

test('what nothing is read from stands just above its reader', () => {
  const {places} = layered([{id: 0, sources: []}, {id: 1, sources: [0]}, {id: 2, sources: []}, {id: 3, sources: [1, 2]}], SIZE);
  assert.deepEqual([...places.values()].map(spot => spot.layer), [0, 1, 1, 2]);
});

test('random graphs are laid out within the rules, and a long one quickly', () => {
  let seed = 1;
  const random = below => (seed = (seed * 48271) % 2147483647) % below;
  for (let round = 0; round < 30; round++) {
    const nodes = Array.from({length: 2 + random(30)}, (_, id) => ({id, sources: [...new Set(Array.from({length: id ? random(4) : 0}, () => random(id)))]}));
    checkLayout(nodes, layered(nodes, SIZE));
  }
  const long = Array.from({length: 1500}, (_, id) => ({id, sources: id > 3 ? [id - 1, id - 4] : []}));
  assert.equal(layered(long, SIZE).layers, 1497);
  const far = Array.from({length: 1500}, (_, id) => ({id, sources: id === 1499 ? Array.from({length: 1499}, (__, from) => from) : id ? [id - 1] : []}));
  assert.equal(layered(far, SIZE), null, 'a million places of edges are not laid out');
});

test('where nothing is said of sources the steps are a chain', () => {
  const {routes, layers, isChain} = layered([{id: 1, sources: null}, {id: 2}, {id: 3, sources: []}], SIZE);
  assert.deepEqual([routes.map(({from, to}) => [from, to]), layers, isChain], [[[1, 2], [2, 3]], 3, true]);
  assert.deepEqual([layered([], SIZE).layers, layered([{id: 1}], SIZE).layers], [0, 1]);
});

const LINES = [
  {event: 'module', arena_bytes: 192, device_bytes: 64, constant_bytes: 1000}, {event: 'input', name: 'x', bytes: 10}, {event: 'output', name: 'y', bytes: 20},
  {event: 'step', number: 0, sources: [], layout_in: 'row', layout_out: 'd0,d1/16', in_use: 128, device_in_use: 0, scratch_bytes: 7},
  {event: 'step', number: 1, sources: [0], layout_in: 'row;row', layout_out: 'row', in_use: 192, device_in_use: 64, scratch_bytes: 0},
  {event: 'step', number: 2, sources: [0, 1], layout_in: '', layout_out: '', in_use: 64, device_in_use: 0, scratch_bytes: 0},
  {event: 'tensor', buffer: 0, kind: 'input', bytes: 10, part_of: null, first: 0, last: 1}, {event: 'tensor', buffer: 1, kind: 'output', bytes: 20, part_of: null, first: 1, last: 2},
  {event: 'tensor', buffer: 2, kind: 'input', bytes: 5, part_of: 0, first: 0, last: 1}, {event: 'tensor', buffer: 3, kind: 'input', bytes: 40, part_of: null, first: null, last: null}, {event: 'tensor', buffer: 4, kind: 'workspace', bytes: 99, part_of: null, first: 0, last: 2},
];

test('memory over a run adds what lives at each step, parts not twice and unused memory not at all', () => {
  const memory = memoryOf(inspectionOf(LINES));
  assert.deepEqual(memory, {workspace: [128, 256, 64], scratch: [7, 0, 0], ports: [10, 30, 20], constants: [1000, 1000, 1000], reserved: 256});
  assert.deepEqual(stacked([memory.constants, memory.ports, memory.workspace]), [[1000, 1000, 1000], [1010, 1030, 1020], [1138, 1286, 1084]]);
});

test('steps say who reads them and in which layouts', () => {
  const {steps} = inspectionOf(LINES);
  assert.deepEqual([...readersOf(steps)], [[0, [1, 2]], [1, [2]], [2, []]]);
  assert.deepEqual(steps.map(layoutOf), ['row → d0,d1/16', 'row', '']);
});
