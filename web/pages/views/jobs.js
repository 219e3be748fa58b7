// All jobs, with filters in the address.
import * as api from '../api.js';
import {choice, field, h} from '../dom.js';
import {countBy, selectJobs} from '../filter.js';
import {count, shortId, span} from '../format.js';
import {follow} from '../live.js';
import {link, setQuery} from '../router.js';
import {Rows} from '../rows.js';
import {Table} from '../table.js';
import {chip, Figures, progress, targetText} from '../widgets.js';

const COLUMNS = [
  {name: 'model', title: 'Model', value: job => job.model_name || job.job, cell: job => h('a', {href: link(['jobs', job.job]), title: job.job}, job.model_name || shortId(job.job))},
  {name: 'state', title: 'State', value: job => job.state, cell: job => chip(job.state)},
  {name: 'done', title: 'Trials', numeric: true, value: job => job.done ?? 0, cell: job => h('span', {class: 'with-progress'}, `${count(job.done ?? 0)}${job.trials ? ` of ${count(job.trials)}` : ''}`, job.trials ? progress(job.done ?? 0, job.trials, 'trials done') : null)},
  {name: 'left', title: 'Time left', numeric: true, value: job => job.eta_ms || undefined, cell: job => (job.eta_ms ? span(job.eta_ms) : '')},
  {name: 'boards', title: 'Boards', numeric: true, value: job => job.boards ?? 0},
  {name: 'target', title: 'Target', value: job => job.target, cell: job => targetText(job.target)},
  {name: 'user', title: 'Person', value: job => job.user},
  {name: 'project', title: 'Project', value: job => job.project},
  {name: 'priority', title: 'Priority', numeric: true, value: job => job.priority ?? 0},
  {name: 'age', title: 'Age', numeric: true, value: job => job.age_ms, cell: job => span(job.age_ms)},
  {name: 'text', title: 'Why', value: job => job.text, cell: job => h('span', {class: 'clip', title: job.text}, job.text ?? '')},
];

function filterBar(jobs, query) {
  const choose = (name, label, all) => {
    const options = [['', all], ...countBy(jobs, job => job[name]).filter(([value]) => value !== '').map(([value, number]) => [value, `${value} (${number})`])];
    if (query[name] && !options.some(([value]) => value === query[name])) options.push([query[name], query[name]]);
    return field(label, choice(options, query[name] ?? '', value => setQuery({[name]: value})));
  };
  return h('form', {class: 'filters', role: 'search', 'aria-label': 'Filters', onsubmit: event => event.preventDefault()},
    field('Search', h('input', {type: 'search', value: query.q ?? '', oninput: event => setQuery({q: event.target.value})})),
    choose('state', 'State', 'any state'), choose('project', 'Project', 'any project'), choose('user', 'Person', 'anybody'));
}

export async function show(view) {
  const lead = view.heading('Jobs', h('a', {class: 'button primary', href: link(['submit'])}, 'Submit a model'));
  const jobs = new Rows('job', await api.all('jobs', {}, view.signal));
  const numbers = new Figures();
  const table = new Table(COLUMNS, {
    caption: 'Jobs', key: job => job.job, empty: 'No job matches.', sort: {name: view.query.sort ?? 'age', descending: view.query.down === '1'},
    onSort: ({name, descending}) => setQuery({sort: name, down: descending ? '1' : ''}),
  });
  view.body.append(numbers.element, filterBar(jobs.values(), view.query), table.element);
  const refresh = () => {
    const all = jobs.values();
    const states = Object.fromEntries(countBy(all, job => job.state));
    numbers.set([
      {label: 'Running', tone: 'busy', value: count(states.running ?? 0), note: `${count(all.reduce((sum, job) => sum + (job.boards ?? 0), 0))} boards`},
      {label: 'Waiting', tone: 'waiting', value: count(states.waiting ?? 0)},
      {label: 'Done', tone: 'free', value: count(states.done ?? 0)},
      {label: 'Failed', tone: 'quarantined', value: count(states.failed ?? 0)},
      {label: 'Cancelled', tone: 'drained', value: count(states.cancelled ?? 0)},
    ]);
    const selected = selectJobs(all, view.query);
    table.set(selected);
    lead.textContent = all.length === 0 ? 'There are no jobs yet. Submit a model, or run: kiln tune MODEL --tracker ADDR' : '';
  };
  refresh();
  view.onQuery = query => {
    view.query = query;
    refresh();
  };
  follow(['jobs'], {signal: view.signal, keys: {jobs: 'job'}, onState: view.setLive, on: {jobs: change => { if (jobs.take(change).size) refresh(); }}, onReset: async () => {
    jobs.replace(await api.all('jobs', {}, view.signal));
    refresh();
  }});
}
