import assert from 'node:assert/strict';
import test from 'node:test';
import {load} from './pages.mjs';

const {sideBySide} = await load('diff.js');
const {argumentsOf, inWords} = await load('trace_words.js');
const {gain, inference, isConfirmed, shipped, Trials} = await load('gains.js');
const {shares} = await load('views/queue.js');
const {compared} = await load('views/records.js');
const {jobQuestion, parseDigest, parseDims} = await load('views/submit.js');

test('two texts stand side by side with their common lines level', () => {
  assert.deepEqual(sideBySide('a\nb\nc\nd', 'a\nx\nc\nd'), [['a', 'a', true], ['b', 'x', false], ['c', 'c', true], ['d', 'd', true]]);
  assert.deepEqual(sideBySide('a\nc', 'a\nb\nc'), [['a', 'a', true], [null, 'b', false], ['c', 'c', true]]);
  assert.deepEqual(sideBySide('a', 'a'), [['a', 'a', true]]);
  const [left, right] = [Array.from({length: 4000}, (_, k) => `l${k}`), Array.from({length: 4000}, (_, k) => `r${k}`)];
  assert.equal(sideBySide(left.join('\n'), right.join('\n')).length, 4000, 'long texts are compared place by place');
});

test('a comparison loses no line of either text', () => {
  const text = seed => Array.from({length: 40}, (_, k) => 'abc'[(k * seed) % 7 % 3]).join('\n');
  for (let seed = 1; seed < 12; seed++) {
    const rows = sideBySide(text(seed), text(seed + 1));
    assert.equal(rows.map(row => row[0]).filter(line => line !== null).join('\n'), text(seed));
    assert.equal(rows.map(row => row[1]).filter(line => line !== null).join('\n'), text(seed + 1));
    assert.ok(rows.every(([a, b, isSame]) => isSame === (a === b)));
  }
});

test('arguments are parted outside of brackets and quotes only', () => {
  assert.deepEqual(argumentsOf('x, "d0,d1/16", c0[2]*16, f(a, b)'), ['x', 'd0,d1/16', 'c0[2]*16', 'f(a, b)']);
  assert.deepEqual(argumentsOf(''), []);
});

test('a trace is told in words; what is unknown stays as it is', () => {
  const said = inWords('split(conv.oc, -1, 4, 16)\n\nc0 = choice(3, 1) = 8\nt3 = perfect_tile(x, 2, 9) = [1, 3]\nvectorize(y)\nof_a_later_version(<b>)\n');
  assert.deepEqual(said.map(one => one.words), ['Split the loop conv.oc into parts of 4 and 16.', 'Choose c0, one of the listed blocks: 8.', 'Choose t3, a split without rest: [1, 3].', 'Run y as vector instructions.', 'of_a_later_version(<b>)']);
  assert.deepEqual(said.map(one => one.isDecision), [false, true, true, false, false]);
});

test('a task whose default nothing has beaten is shipped with it', () => {
  assert.equal(shipped({default_ns: 10, best_ns: 4}), 4);
  assert.equal(shipped({default_ns: 10, best_ns: 12}), 10);
  assert.equal(shipped({best_ns: 12}), 12);
  assert.equal(gain({default_ns: 10, best_ns: 12}), 1);
  assert.equal(gain({best_ns: 12}), undefined);
  assert.ok(!isConfirmed({}) && isConfirmed({gain_low: 1.2}));
});

test('an inference is the sum of its calls, and unknown while a task has no time', () => {
  const tasks = [{weight: 2, default_ns: 10, best_ns: 5}, {weight: 1, default_ns: 4, best_ns: 4}, {default_ns: 100, best_ns: 1}];
  assert.deepEqual(inference(tasks), {known: true, default_ns: 24, best_ns: 14});
  assert.equal(inference([...tasks, {weight: 1}]).known, false);
  assert.equal(inference([]).known, false);
});

test('trials are gathered in parts, whatever the order of their columns', () => {
  const trials = new Trials();
  const columns = ['median_ns', 'task', 'outcome', 'time_ms', 'board_ns'];
  trials.add({columns, rows: [[10, 'k0', 'ok', 1000, 5], [0, 'k1', 'crash', 1500, 6], [8, 'k0', 'ok', 3000, 7]]});
  trials.add({columns: [...columns].reverse(), rows: [[1, 4000, 'ok', 'k0', 9], [1, 5000, 'timeout', 'k0', 5]]}); // in another order
  assert.deepEqual([trials.total, trials.boardNs], [5, 20]);
  assert.deepEqual([...trials.outcomes], [['ok', 3], ['crash', 1], ['timeout', 1]]);
  assert.deepEqual(trials.speed('k0', 20), [[0, 2], [2, 2.5], [4, 2.5]]);
  assert.deepEqual(trials.speed('k1', 20), [], 'nothing of it ran');
});

test('shares and weights are parts of the whole', () => {
  assert.deepEqual(shares([{project: 'a', share: 3, weight: 1}, {project: 'b', share: 1}]).map(row => [row.share, row.due]), [[0.75, 1], [0.25, 0]]);
  assert.equal(shares([{share: 1, weight: 5, fair_share: 0.3}])[0].due, 0.3, 'the tracker knows better');
  assert.deepEqual(shares([]), []);
});

test('a comparison has the worst first and no ratio where a side is missing', () => {
  const rows = compared([{task: 'a', a: {median_ns: 10}, b: {median_ns: 5}}, {task: 'b', a: {median_ns: 10}}, {task: 'c', a: {median_ns: 10}, b: {median_ns: 30}}]);
  assert.deepEqual(rows.map(row => [row.task, row.ratio]), [['c', 3], ['a', 0.5], ['b', undefined]]);
});

test('sizes of dimensions are read, and what is wrong is named', () => {
  assert.deepEqual(parseDims('batch=8, seq=128'), {batch: 8, seq: 128});
  assert.deepEqual(parseDims(' '), {});
  assert.throws(() => parseDims('batch=many'), /batch=many is no size/);
});

test('a model that was sent before is named by its SHA-256', () => {
  assert.equal(parseDigest(` ${'AB'.repeat(32)} `), 'ab'.repeat(32));
  for (const text of ['', 'ab', 'zz'.repeat(32), `${'ab'.repeat(32)}0`]) assert.throws(() => parseDigest(text), /64 hexadecimal digits/);
});

test('a job is asked for with what differs from the defaults', () => {
  const question = {model: 'm', target: 'rpi4', name: '', budget: {}, project: undefined, priority: 0, dims: {}, precision: 'f32', accuracy: ''};
  assert.deepEqual(jobQuestion(question), {model: 'm', target: 'rpi4', dims: []});
  assert.deepEqual(jobQuestion({...question, name: 'n', budget: {seconds: 9}, project: 'p', priority: 3, dims: {batch: 8}, precision: 'bf16', accuracy: '1e-3'}),
    {model: 'm', target: 'rpi4', name: 'n', seconds: 9, project: 'p', priority: 3, dims: ['batch=8'], precision: 'bf16', accuracy: '1e-3'});
});
