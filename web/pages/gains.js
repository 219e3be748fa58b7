// What a job has gained: per task, and of one inference. Pure.
import {columnOf} from './columns.js';

/** Why a task gets no more trials (kiln_rest in proto/proto.h). */
export const RESTS = ['', 'its share of the trials was measured before', 'there are no other schedules', 'at the machine’s peak', 'more trials would hardly be felt', 'no time was left for its final'];

/** The time that is shipped: a task whose default nothing has beaten keeps it. */
export function shipped(task) {
  const base = task.default_ns || task.best_ns || 0;
  return task.best_ns > 0 && task.best_ns < base ? task.best_ns : base;
}

/** Default over shipped time of one task; undefined where the default is not known. */
export const gain = task => (task.default_ns > 0 && task.best_ns > 0 ? task.default_ns / shipped(task) : undefined);

/**
 * Time of one inference before and now, over the tasks that it calls (weight > 0). `known`: whether every one of them has a
 * time; before that the sums say nothing of the whole.
 */
export function inference(tasks) {
  const called = tasks.filter(task => task.weight > 0);
  const sum = time => called.reduce((total, task) => total + task.weight * time(task), 0);
  const known = called.length > 0 && called.every(task => task.best_ns > 0);
  return {known, default_ns: sum(task => task.default_ns || task.best_ns || 0), best_ns: sum(shipped)};
}

/** Whether a gain was confirmed by measuring both in turns. */
export const isConfirmed = task => task.gain_low > 0;

/**
 * Trials of a job, gathered by task from parts of the API's answer. Keeps per task its best-so-far steps over time, and counts of
 * outcomes and of device time; so many trials stay small.
 */
export class Trials {
  tasks = new Map();
  outcomes = new Map();
  total = 0;
  boardNs = 0;
  first = Infinity;
  last = -Infinity;

  add(part) {
    const [outcomeOf, whenOf, boardOf, taskOf, medianOf] = ['outcome', 'time_ms', 'board_ns', 'task', 'median_ns'].map(name => columnOf(part, name));
    for (const row of part.rows) {
      const outcome = outcomeOf(row);
      const when = whenOf(row);
      this.total++;
      this.boardNs += boardOf(row) ?? 0;
      this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
      if (when < this.first) this.first = when;
      if (when > this.last) this.last = when;
      this.#take(taskOf(row), when, outcome === 'ok' ? medianOf(row) : 0);
    }
  }

  #take(key, when, median) {
    let one = this.tasks.get(key);
    if (!one) this.tasks.set(key, one = {count: 0, best: Infinity, steps: []});
    one.count++;
    if (!(median > 0) || median >= one.best) return;
    one.best = median;
    one.steps.push([when, median, one.count]);
  }

  /** Speed of a task over its default as steps over seconds since the first trial; up to the end of all trials. */
  speed(key, defaultNs) {
    const steps = this.tasks.get(key)?.steps ?? [];
    if (steps.length === 0) return [];
    const base = defaultNs || steps[0][1];
    const points = steps.map(([when, median]) => [(when - this.first) / 1000, base / median]);
    points.push([(this.last - this.first) / 1000, points.at(-1)[1]]);
    return points;
  }
}
