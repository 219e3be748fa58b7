// Which boards and jobs a query asks for, and how boards are grouped. Pure.
import {target} from './format.js';

export const labelOf = (board, key) => board.labels?.find(label => label.key === key)?.value;

/** The state that a person cares about; what the tracker may add later is "other". */
const GROUPS = {
  free: 'free', leased: 'busy', draining: 'drained', drained: 'drained', sick: 'sick', unfenced: 'sick',
  quarantined: 'quarantined', lost: 'lost', waiting: 'waiting', running: 'busy', done: 'free', failed: 'quarantined', cancelled: 'drained',
};
export const toneOf = state => GROUPS[state] ?? 'other';

const holds = (text, part) => String(text ?? '').toLowerCase().includes(part);

function matchesWords(texts, q) {
  return q.toLowerCase().split(/\s+/).filter(Boolean).every(word => texts.some(text => holds(text, word)));
}

const boardTexts = board => [
  board.key, board.node, board.device, board.target, board.state, board.job, board.user, board.project, board.text,
  ...(board.labels ?? []).map(label => `${label.key}=${label.value}`),
];
const jobTexts = job => [job.job, job.model_name, job.target, job.state, job.user, job.project, job.text, job.tuner_name];

const BOARD_TESTS = {
  state: (board, value) => board.state === value,
  kind: (board, value) => target(board.target).kind === value,
  room: (board, value) => (labelOf(board, 'room') ?? '') === value,
  project: (board, value) => board.project === value,
  job: (board, value) => board.job === value,
  q: (board, value) => matchesWords(boardTexts(board), value),
};
const JOB_TESTS = {
  state: (job, value) => job.state === value,
  project: (job, value) => job.project === value,
  user: (job, value) => job.user === value,
  q: (job, value) => matchesWords(jobTexts(job), value),
};

const select = tests => (rows, query) => {
  const asked = Object.entries(query).filter(([name, value]) => value !== '' && tests[name]);
  return rows.filter(row => asked.every(([name, value]) => tests[name](row, value)));
};
/** Those that match each named filter of the query; names that are no filters are skipped. */
export const selectBoards = select(BOARD_TESTS);
export const selectJobs = select(JOB_TESTS);

const byName = new Intl.Collator('en', {numeric: true});
export const compareNames = (a, b) => byName.compare(a, b);

/** [[name, rows]] by a key, in the order of names; an empty name comes last. */
export function groupBy(rows, key) {
  const groups = new Map();
  for (const row of rows) {
    const name = key(row) ?? '';
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return [...groups].sort(([a], [b]) => (a === '') - (b === '') || compareNames(a, b));
}

/** Different values of a key with their counts, in the order of names. */
export const countBy = (rows, key) => groupBy(rows, key).map(([name, group]) => [name, group.length]);
