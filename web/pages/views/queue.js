// Why each waiting job waits, and what each project gets against its weight.
import * as api from '../api.js';
import {bars, barsHeight} from '../chart/bars.js';
import {Figure} from '../chart/figure.js';
import {h} from '../dom.js';
import {count, percent, shortId, span} from '../format.js';
import {bounded, follow} from '../live.js';
import {link} from '../router.js';
import {Table} from '../table.js';
import {targetText} from '../widgets.js';

const COLUMNS = [
  {name: 'position', title: 'Place', numeric: true, value: row => row.position},
  {name: 'job', title: 'Job', value: row => row.model_name || row.job, cell: row => h('a', {href: link(['jobs', row.job])}, row.model_name || shortId(row.job))},
  {name: 'why', title: 'Why it waits', value: row => row.why ?? row.text, cell: row => h('span', {class: 'wrap'}, row.why ?? row.text ?? 'not told')},
  {name: 'project', title: 'Project', value: row => row.project},
  {name: 'user', title: 'Person', value: row => row.user},
  {name: 'target', title: 'Target', value: row => row.target, cell: row => targetText(row.target)},
  {name: 'priority', title: 'Priority', numeric: true, value: row => row.priority},
  {name: 'age', title: 'Waits for', numeric: true, value: row => row.age_ms, cell: row => span(row.age_ms)},
];
const PROJECT_COLUMNS = [
  {name: 'project', title: 'Project', value: row => row.project},
  {name: 'share', title: 'Gets', numeric: true, value: row => row.share, cell: row => percent(row.share, 1)},
  {name: 'weight', title: 'Is due', numeric: true, value: row => row.due, cell: row => percent(row.due, 1)},
  {name: 'boards', title: 'Boards', numeric: true, value: row => row.boards ?? 0},
  {name: 'queue', title: 'Requests', numeric: true, value: row => row.queue ?? 0},
  {name: 'seconds', title: 'Board time today', numeric: true, value: row => row.board_seconds, cell: row => span(1000 * (row.board_seconds ?? 0))},
];

/** Shares as parts of the whole, beside what weights give: the tracker's own `fair_share`, or the weight's part. */
export function shares(projects) {
  const sum = key => projects.reduce((total, project) => total + (project[key] ?? 0), 0);
  const [share, weight] = [sum('share') || 1, sum('weight') || 1];
  return projects.map(project => ({...project, share: (project.share ?? 0) / share, due: project.fair_share ?? (project.weight ?? 0) / weight}));
}

export async function show(view) {
  const lead = view.heading('Queue');
  let projects = [];
  const figure = new Figure({
    title: 'What projects get', height: () => barsHeight(projects.length), empty: 'No project uses boards.',
    note: 'Bars: share of the boards’ time now. Lines: share that the project’s weight gives it.',
    draw: width => bars({width, max: 1, rows: projects.map((row, index) => ({name: row.project, value: row.share, mark: row.due, tone: `tone-${index % 8 + 1}`, text: percent(row.share)}))}),
    text: () => projects.map(row => `${row.project} gets ${percent(row.share)} of ${percent(row.due)}`).join('; '),
    table: () => ({names: ['project', 'share', 'due'], rows: projects.map(row => [row.project, row.share, row.due])}),
  });
  const waiting = new Table(COLUMNS, {caption: 'Waiting jobs', key: row => row.job, empty: 'No job waits.'});
  const table = new Table(PROJECT_COLUMNS, {caption: 'Projects', key: row => row.project, empty: 'No project.'});
  view.body.append(waiting.element, h('div', {class: 'grid'}, figure.element, h('section', {class: 'card'}, h('h2', {}, 'Projects'), table.element)));
  const load = async () => {
    const queue = await api.get('queue', {}, view.signal);
    const jobs = queue.jobs;
    projects = shares(queue.projects);
    lead.textContent = jobs.length === 0 ? 'Every job has what it asked for.' : `${count(jobs.length)} jobs wait; the longest for ${span(Math.max(...jobs.map(job => job.age_ms ?? 0)))}.`;
    waiting.set(jobs);
    table.set(projects);
    figure.draw();
  };
  await load();
  const soon = bounded(() => load().catch(error => { if (!view.signal.aborted) lead.textContent = error.message; }), () => 2000);
  follow(['jobs', 'boards'], {signal: view.signal, keys: {jobs: 'job', boards: 'node'}, onState: view.setLive, on: {jobs: soon, boards: soon}, onReset: soon});
}
