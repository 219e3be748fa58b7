// All boards: a map by room and kind, and a table; both follow the filters of the address.
import * as api from '../api.js';
import {choice, field, h} from '../dom.js';
import {countBy, labelOf, selectBoards, toneOf} from '../filter.js';
import {clock, count, degrees, percent, shortId, span, target} from '../format.js';
import {follow} from '../live.js';
import {link, setQuery} from '../router.js';
import {Rows} from '../rows.js';
import {Table} from '../table.js';
import {boardLink, chip, Figures} from '../widgets.js';
import {FleetMap} from './fleet_map.js';

const OUT_OF_SERVICE = ['drained', 'quarantined', 'sick', 'other'];

const holder = board => (board.user ? `${board.user}'s ${shortId(board.job)}` : '');

const COLUMNS = [
  {name: 'board', title: 'Board', value: board => board.key, cell: boardLink},
  {name: 'state', title: 'State', value: board => board.state, cell: board => chip(board.state)},
  {name: 'holder', title: 'Held by', value: holder, cell: board => (board.job ? h('a', {href: link(['jobs', board.job])}, holder(board)) : board.text ?? '')},
  {name: 'project', title: 'Project', value: board => board.project},
  {name: 'left', title: 'Free in', numeric: true, value: board => board.eta_ms || undefined, cell: board => (board.eta_ms ? span(board.eta_ms) : '')},
  {name: 'kind', title: 'Target', value: board => target(board.target).name, cell: board => h('span', {class: 'clip', title: board.target}, target(board.target).name)},
  {name: 'room', title: 'Room', value: board => labelOf(board, 'room')},
  {name: 'temperature', title: 'Temp.', numeric: true, value: board => board.env?.temperature_mc / 1000, cell: board => degrees(board.env?.temperature_mc)},
  {name: 'clock', title: 'Clock', numeric: true, value: board => board.env?.frequency_khz / 1e6, cell: board => clock(board.env?.frequency_khz)},
  {name: 'noise', title: 'Noise', numeric: true, value: board => board.noise, cell: board => (board.noise ? `±${percent(board.noise, 1)}` : '')},
  {name: 'drift', title: 'Drift', numeric: true, value: board => board.drift, cell: board => (board.drift ? board.drift.toFixed(3) : '')},
  {name: 'faults', title: 'Faults', numeric: true, value: board => board.faults ?? 0},
  {name: 'trials', title: 'Trials', numeric: true, value: board => board.trials ?? 0, cell: board => count(board.trials ?? 0)},
];

function figures(boards, tuners) {
  const tones = Object.fromEntries(countBy(boards, board => toneOf(board.state)));
  const out = OUT_OF_SERVICE.reduce((sum, tone) => sum + (tones[tone] ?? 0), 0);
  const share = boards.length ? (tones.busy ?? 0) / boards.length : 0;
  return [
    {label: 'Boards', value: count(boards.length), note: tuners === undefined ? '' : `${count(tuners)} tuners`},
    {label: 'Busy', tone: 'busy', value: count(tones.busy ?? 0), note: percent(share)},
    {label: 'Free', tone: 'free', value: count(tones.free ?? 0), note: ''},
    {label: 'Not in service', tone: 'sick', value: count(out), note: 'sick, drained, quarantined'},
    {label: 'Lost', tone: 'lost', value: count(tones.lost ?? 0), note: ''},
  ];
}

/** The filters, whose choices follow from the boards that are there. */
function filterBar(boards, query) {
  const options = (key, all) => [['', all], ...countBy(boards, key).filter(([name]) => name !== '').map(([name, number]) => [name, `${name} (${number})`])];
  const choose = (name, label, all, key) => {
    const list = options(key, all);
    if (query[name] && !list.some(([value]) => value === query[name])) list.push([query[name], query[name]]);
    return field(label, choice(list, query[name] ?? '', value => setQuery({[name]: value})));
  };
  const search = h('input', {type: 'search', value: query.q ?? '', oninput: event => setQuery({q: event.target.value})});
  return h('form', {class: 'filters', role: 'search', 'aria-label': 'Filters', onsubmit: event => event.preventDefault()},
    field('Search', search),
    choose('state', 'State', 'any state', board => board.state), choose('kind', 'Kind', 'any kind', board => target(board.target).kind),
    choose('room', 'Room', 'any room', board => labelOf(board, 'room')), choose('project', 'Project', 'any project', board => board.project));
}

export async function show(view) {
  const lead = view.heading('Fleet');
  const boards = new Rows('node', await api.all('boards', {}, view.signal));
  const numbers = new Figures();
  const map = new FleetMap();
  const table = new Table(COLUMNS, {caption: 'Boards', key: board => board.node, empty: 'No board matches.', sort: {name: view.query.sort ?? 'board', descending: view.query.down === '1'}, onSort: ({name, descending}) => setQuery({sort: name, down: descending ? '1' : ''})});
  view.body.append(numbers.element, filterBar(boards.values(), view.query), map.element, table.element);
  const refresh = () => {
    const all = boards.values();
    const selected = selectBoards(all, view.query);
    numbers.set(figures(all));
    map.set(selected);
    table.set(selected);
    lead.textContent = all.length === 0
      ? 'There are no boards yet. On a board run: kiln-rpc-server --tracker ADDR'
      : selected.length === all.length ? '' : `${count(selected.length)} of ${count(all.length)} boards match.`;
  };
  refresh();
  view.onQuery = query => {
    view.query = query;
    refresh();
  };
  follow(['boards'], {
    signal: view.signal, keys: {boards: 'node'}, onState: view.setLive,
    on: {boards: change => { if (boards.take(change).size) refresh(); }},
    onReset: async () => {
      boards.replace(await api.all('boards', {}, view.signal));
      refresh();
    },
  });
}
