import assert from 'node:assert/strict';
import test from 'node:test';
import {load} from './pages.mjs';

const {csv} = await load('csv.js');
const {compareNames, countBy, groupBy, selectBoards, selectJobs, toneOf} = await load('filter.js');
const {Rows} = await load('rows.js');
const {Pending} = await load('live.js');
const {link, parse} = await load('router.js');
const {address} = await load('api.js');
const {cellsOf, columnOf} = await load('columns.js');
const {compareValues, rowsInSight, sortRows} = await load('table.js');

test('CSV quotes what needs it and defuses formulas of hostile names', () => {
  const text = csv(['a', 'b'], [['x,y', 'say "hi"'], ["=cmd|' /C calc'!A0", '@x'], [1.5, -2], [null, undefined], ['two\nlines', NaN]]);
  assert.equal(text, 'a,b\r\n"x,y","say ""hi"""\r\n\'=cmd|\' /C calc\'!A0,\'@x\r\n1.5,-2\r\n,\r\n"two\nlines",\r\n');
});

const boards = [
  {key: 'pi-10', node: 'n1', state: 'free', target: 'cpu:a,mcpu=cortex-a72', labels: [{key: 'room', value: 'A1'}]},
  {key: 'pi-9', node: 'n2', state: 'leased', target: 'cuda:sm_90', user: 'ana', project: 'vision', job: 'j1'},
  {key: '<b>', node: 'n3', state: 'free', target: 'cpu:b', labels: [{key: 'room', value: 'A1'}, {key: 'rack', value: '2'}]},
];

test('boards are selected by every filter of the query at once', () => {
  const found = query => selectBoards(boards, query).map(board => board.node).join();
  assert.equal(found({}), 'n1,n2,n3');
  assert.equal(found({state: 'free', room: 'A1'}), 'n1,n3');
  assert.equal(found({room: 'A1', q: 'rack=2'}), 'n3');
  assert.equal(found({kind: 'cuda'}), 'n2');
  assert.equal(found({q: 'ANA vision'}), 'n2');
  assert.equal(found({q: 'ana free'}), '');
  assert.equal(found({sort: 'board', state: ''}), 'n1,n2,n3', 'what is no filter, or empty, is skipped');
  assert.equal(found({constructor: 'x', toString: 'y'}), 'n1,n2,n3', 'names of every object are no filters');
});

test('jobs are selected likewise', () => {
  const jobs = [{job: 'a', state: 'running', user: 'bo', model_name: 'resnet.onnx'}, {job: 'b', state: 'done', user: 'ana'}];
  assert.deepEqual(selectJobs(jobs, {user: 'bo', q: 'RES'}).map(job => job.job), ['a']);
});

test('groups are in the order of names, with the nameless last', () => {
  assert.deepEqual(countBy(boards, board => board.labels?.[0].value), [['A1', 2], ['', 1]]);
  assert.deepEqual(['pi-10', 'pi-9', 'a'].sort(compareNames), ['a', 'pi-9', 'pi-10']);
  assert.deepEqual(groupBy([], row => row.x), []);
});

test('an unknown state has a tone of its own', () => {
  assert.equal(toneOf('leased'), 'busy');
  assert.equal(toneOf('constructor-like'), 'other');
});

test('rows take events, and say only what changed', () => {
  const rows = new Rows('node', boards);
  assert.equal(rows.take({rows: [{...boards[0]}]}).size, 0, 'the same row again is no change');
  assert.deepEqual([...rows.take({rows: [{...boards[0], state: 'lost'}, {node: 'n4'}], gone: ['n2', 'never']})], ['n1', 'n4', 'n2']);
  assert.deepEqual(rows.values().map(row => row.node), ['n1', 'n3', 'n4']);
});

test('an event of one row is a change of one row', () => {
  const pending = new Pending('job');
  pending.add({row: {job: 'a', v: 1}});
  assert.deepEqual(pending.drain(), {rows: [{job: 'a', v: 1}], gone: []});
});

test('changes that wait are joined: the newest row wins, and what comes back is not gone', () => {
  const pending = new Pending('node');
  pending.add({rows: [{node: 'a', v: 1}, {node: 'b', v: 1}]});
  pending.add({rows: [{node: 'a', v: 2}], gone: ['b', 'c']});
  pending.add({rows: [{node: 'c', v: 3}]});
  assert.deepEqual(pending.drain(), {rows: [{node: 'a', v: 2}, {node: 'c', v: 3}], gone: ['b']});
  assert.deepEqual(pending.drain(), {rows: [], gone: []});
});

test('a link is read as it was written, whatever the names', () => {
  for (const name of ['a b', '<img src=x>', 'x/y?z#w', '%', 'ü'])
    assert.deepEqual(parse(link(['boards', name], {q: name, empty: ''})), {path: ['boards', name], query: {q: name}});
  assert.deepEqual(parse(''), {path: [], query: {}});
  assert.deepEqual(parse('#/jobs/%E0%A4%A'), {path: ['jobs', '%E0%A4%A'], query: {}}, 'a link that was cut is no error');
});

test('addresses leave out filters that are empty', () => {
  assert.equal(address('boards', {limit: 10, q: 'a&b', state: '', job: undefined}), 'api/v1/boards?limit=10&q=a%26b');
  assert.equal(address('records/compare', {target: ['a', 'b'], before: []}), 'api/v1/records/compare?target=a&target=b');
});

test('columns are found by name, whatever their order', () => {
  const table = {columns: ['n', 'outcome'], rows: []};
  assert.deepEqual(['outcome', 'n', 'absent'].map(name => cellsOf(table)([1, 'ok'], name)), ['ok', 1, undefined]);
  assert.deepEqual(['outcome', 'absent'].map(name => columnOf(table, name)([1, 'ok'])), ['ok', undefined]);
});

test('sorting keeps what is missing at the end, in both directions', () => {
  const rows = [{v: 2}, {v: undefined}, {v: 10}, {v: 1}];
  assert.deepEqual(sortRows(rows, row => row.v, false).map(row => row.v), [1, 2, 10, undefined]);
  assert.deepEqual(sortRows(rows, row => row.v, true).map(row => row.v), [10, 2, 1, undefined]);
  assert.ok(compareValues('pi-9', 'pi-10') < 0);
});

test('only rows in sight and some beside them are in the document', () => {
  assert.deepEqual(rowsInSight(150, 0, 700, 36), [0, 150], 'few rows are all there');
  const [first, last] = rowsInSight(100000, 36000, 720, 36);
  assert.ok(first <= 1000 && last >= 1020 && last - first < 60, `${first} ${last}`);
  assert.deepEqual(rowsInSight(1000, 36 * 1000, 720, 36)[1], 1000);
});
