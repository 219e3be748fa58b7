// A question to the compile service: how far it is, and the modules to download.
import * as api from '../api.js';
import {h} from '../dom.js';
import {bytes, shortId, targetName} from '../format.js';
import {link} from '../router.js';
import {Table} from '../table.js';
import {ask, card, chip} from '../widgets.js';

const POLL_MS = 2000;
const ENDED = ['done', 'failed', 'cancelled'];

/** What went wrong, or how many are before it. */
const noteOf = row => row.error?.message ?? (row.state === 'waiting' && row.position ? `${row.position} before it` : '');

const COLUMNS = [
  {name: 'target', title: 'Target', value: row => row.target, cell: row => h('span', {title: row.target}, targetName(row.target))},
  {name: 'state', title: 'State', value: row => row.state, cell: row => chip(row.state)},
  {name: 'job', title: 'Job', value: row => row.job, cell: row => (row.job ? h('a', {href: link(['jobs', row.job])}, shortId(row.job)) : '')},
  {name: 'module', title: 'Module', value: row => row.module, cell: row => (row.module ? h('a', {href: link(['modules', row.module])}, shortId(row.module)) : '')},
  {name: 'bytes', title: 'Size', numeric: true, value: row => row.bytes, cell: row => bytes(row.bytes)},
  {name: 'download', title: 'Download', value: row => (row.module ? api.address(`modules/${row.module}`) : ''), cell: row => (row.module ? h('a', {class: 'button', href: api.address(`modules/${encodeURIComponent(row.module)}`), download: 'model.kiln'}, 'Download') : '')},
  {name: 'note', title: 'Note', value: noteOf, cell: row => h('span', {class: 'wrap'}, noteOf(row))},
];

export async function show(view) {
  const [id] = view.parameters;
  const path = `compile/${encodeURIComponent(id)}`;
  const cancel = h('button', {type: 'button', class: 'danger', onclick: () => ask({title: 'Cancel this compilation', action: 'Cancel it', isDangerous: true, run: async () => { await api.remove(path); await load(); }})}, 'Cancel');
  const lead = view.heading('Compilation', cancel);
  const table = new Table(COLUMNS, {caption: 'Modules', key: row => row.target, empty: 'No target yet.'});
  view.body.append(card(null, table.element));
  let timer = 0;
  const load = async () => {
    clearTimeout(timer);
    const answer = await api.get(path, {}, view.signal);
    lead.replaceChildren(chip(answer.state), ` ${shortId(id)}`);
    table.set(answer.targets);
    cancel.hidden = ENDED.includes(answer.state);
    view.setLive(cancel.hidden ? 'still' : 'live');
    if (!cancel.hidden) timer = setTimeout(() => load().catch(error => { if (!view.signal.aborted) view.fail(error); }), POLL_MS);
  };
  view.signal.addEventListener('abort', () => clearTimeout(timer));
  await load();
}
