// One board: who holds it, what it measured of itself, its history and log, and what an operator may do with it.
import * as api from '../api.js';
import {cellsOf} from '../columns.js';
import {Figure} from '../chart/figure.js';
import {line} from '../chart/line.js';
import {h} from '../dom.js';
import {ago, bytes, clock, count, degrees, number, percent, shortId, span, stamp} from '../format.js';
import {follow} from '../live.js';
import {link} from '../router.js';
import {ask, card, chip, facts, Figures, missing, targetText} from '../widgets.js';

const LOG_LINES = 500;
const LOG_POLL_MS = 3000;
const ACTIONS = [
  ['drain', 'Drain', 'It finishes its trials and gets no more.'],
  ['quarantine', 'Quarantine', 'All trials are taken from it at once.'],
  ['release', 'Release', 'It is put back into service.'],
];

function numbersOf(board) {
  const env = board.env ?? {};
  return [
    {label: 'Busy', value: `${board.busy ?? 0} of ${board.slots ?? 1}`, note: board.eta_ms ? `free in about ${span(board.eta_ms)}` : ''},
    {label: 'Trials', value: count(board.trials ?? 0), note: `${count(board.ok ?? 0)} ok`},
    {label: 'Faults', value: count(board.faults ?? 0), note: board.fault_run ? `${board.fault_run} since the last good result` : ''},
    {label: 'Noise', value: board.noise ? `±${percent(board.noise, 1)}` : '–', note: 'of a median'},
    {label: 'Drift', value: board.drift ? board.drift.toFixed(3) : '–', note: 'reference kernel, 1 is usual'},
    {label: 'Temperature', value: degrees(env.temperature_mc), note: env.throttle_bits ? 'throttled now' : ''},
    {label: 'Clock', value: clock(env.frequency_khz), note: env.governor ?? ''},
  ];
}

const holder = board => (board.job
  ? h('p', {}, `${board.user ?? 'Somebody'}'s `, h('a', {href: link(['jobs', board.job])}, `job ${shortId(board.job)}`), board.project ? ` of ${board.project}` : '', board.held_ms ? ` for ${span(board.held_ms)}` : '')
  : h('p', {class: 'muted'}, 'No job holds it.'));

const about = board => facts([
  ['Node', board.node], ['Device', board.device], ['Target', board.target], ['Memory', board.memory_bytes ? bytes(board.memory_bytes) : null],
  ['Last heard', board.silent_ms === undefined ? null : ago(board.silent_ms)],
  ['Power', board.env?.power_mw ? `${number(board.env.power_mw / 1000)} W` : null], ['Load', board.env?.load_milli ? number(board.env.load_milli / 1000) : null],
  ['Contains without', board.missing], ['Program', board.software],
  ...(board.labels ?? []).map(label => [label.key, label.value]),
  ...(board.targets ?? []).map((also, index) => [`Target ${index + 2}`, h('span', {}, targetText(also.target), ` ${also.busy ?? 0} of ${also.slots} busy`)]),
]);

const reported = board => facts((board.facts ?? []).map(fact => [fact.key, fact.value]));

function measured(board) {
  if (!Array.isArray(board.figures) || board.figures.length === 0) return missing('This board has not sent figures of its processor.');
  return facts(board.figures.map(figure => [figure.name, `${number(figure.value)} ${figure.unit ?? ''}`]));
}

function historyOf(board, now) {
  const events = [...(board.history ?? [])].reverse();
  if (events.length === 0) return missing('Nothing has happened to it since the tracker started.');
  return h('ol', {class: 'history'}, events.map(event => h('li', {},
    h('time', {datetime: new Date(event.wall_ms).toISOString(), title: stamp(event.wall_ms)}, ago(now - event.wall_ms)), ' ', h('strong', {}, event.what), event.text ? ` ${event.text}` : '')));
}

function driftFigure(table) {
  const cell = cellsOf(table);
  const points = name => table.rows.map(row => [cell(row, 'time_ms'), cell(row, name)]).filter(([, value]) => value > 0);
  const series = [{name: 'arithmetic', tone: 'tone-1', points: points('drift')}, {name: 'memory', tone: 'tone-2', points: points('drift_memory')}];
  return new Figure({
    title: 'Drift over time', empty: 'No record of this board has a drift.',
    note: 'Time of the reference kernel beside each trial, over the usual one: above 1 the board is slower than usual.',
    draw: (width, height) => line({width, height, x: {kind: 'time', format: at => stamp(at).slice(5, 16)}, y: {kind: 'linear', title: 'drift', format: value => value.toFixed(2), include: [0.98, 1.02]}, series}),
    text: () => `${count(series[0].points.length)} readings, the last ${number(series[0].points.at(-1)?.[1])}.`,
    table: () => ({names: table.columns, rows: table.rows}),
  });
}

async function showDrift(view, path, place) {
  try {
    place.replaceChildren(driftFigure(await api.get(`${path}/drift`, {}, view.signal)).element);
  } catch (error) {
    if (!view.signal.aborted) place.replaceChildren(card('Drift over time', missing(error.message)));
  }
}

/** The last lines of the board's log, followed as it grows. */
async function showLog(view, id, place) {
  const text = h('pre', {class: 'log', tabindex: '0', 'aria-label': 'Log of the board', role: 'log'});
  const first = await api.optional(api.get(`boards/${encodeURIComponent(id)}/log`, {}, view.signal)).catch(error => ({error}));
  if (!first || first.error) {
    place.append(missing(first?.error?.message ?? 'The server does not give logs of boards.'));
    return;
  }
  let since = 0;
  const take = page => {
    const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
    for (const one of page.lines) text.append(h('span', {class: `level-${/^(error|warn|info|debug)$/.test(one.level) ? one.level : 'info'}`}, `${one.time ?? ''} ${one.text}\n`));
    while (text.childElementCount > LOG_LINES) text.firstElementChild.remove();
    since = page.newest ?? page.lines.at(-1)?.number ?? since;
    if (atEnd) text.scrollTop = text.scrollHeight;
  };
  place.append(text);
  take(first);
  const poll = setInterval(async () => {
    if (document.hidden) return;
    const page = await api.get(`boards/${encodeURIComponent(id)}/log`, {since}, view.signal).catch(() => null); // the next poll tries again
    if (page?.lines?.length) take(page);
  }, LOG_POLL_MS);
  view.signal.addEventListener('abort', () => clearInterval(poll));
}

export async function show(view) {
  const [id] = view.parameters;
  const path = `boards/${encodeURIComponent(id)}`;
  let board = await api.get(path, {}, view.signal);
  const buttons = ACTIONS.map(([action, title, text]) => h('button', {type: 'button', class: action === 'quarantine' ? 'danger' : 'quiet', onclick: () => ask({
    title: `${title} ${board.key}`, text, action: title, isDangerous: action === 'quarantine',
    fields: [{name: 'reason', label: 'Reason', hint: 'It is shown to everybody who asks for the board.'}],
    run: async ({reason}) => { update(await api.post(`${path}/${action}`, {reason})); },
  })}, title));
  const lead = view.heading(board.key || shortId(id), ...buttons);
  const numbers = new Figures();
  const held = h('div');
  const rest = h('div', {class: 'grid'});
  const history = h('div');
  const drift = h('div');
  const log = h('div');
  const update = row => {
    board = {...board, ...row};
    lead.replaceChildren(chip(board.state), board.text ? ` ${board.text}` : '');
    numbers.set(numbersOf(board));
    held.replaceChildren(holder(board));
    history.replaceChildren(historyOf(board, Date.now()));
    rest.replaceChildren(card('About', about(board)), card('Figures that it measured', measured(board)), ...(board.facts?.length ? [card('What it reported', reported(board))] : []));
  };
  view.body.append(numbers.element, card('Holder', held), drift, h('div', {class: 'grid'}, card('History', history), card('Log', log)), rest);
  update(board);
  follow(['boards'], {signal: view.signal, keys: {boards: 'node'}, onState: view.setLive, on: {boards: change => {
    const row = change.rows.find(one => one.node === board.node);
    if (row) update(row);
  }}, onReset: async () => update(await api.get(path, {}, view.signal))});
  await showDrift(view, path, drift);
  await showLog(view, id, log);
}
