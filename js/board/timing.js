// How candidates are timed, as rpc-server/timing.h does it: until warm, in samples that are long enough for the clock, until
// the median is known well enough.
const CLOCK_STEPS = 200; // a sample lasts so many steps of the clock: that is within 0.5 %
const SAMPLES_MAX = 1024;
const RACE_SAMPLES = 3;
const WARM_MS = 10;
const STEADY = 0.05;
const NS = 1e6; // in a millisecond

/** proto/proto.h. */
export const STOP = {none: 0, converged: 1, countCap: 2, timeCap: 3, raced: 4};

/** The least step of the clock, in milliseconds: 5 us in an isolated page, 100 in others. */
export function clockStep() {
  let step = Infinity;
  for (let i = 0; i < 20; i++) {
    const begin = performance.now();
    let now = begin;
    while (now === begin) now = performance.now();
    step = Math.min(step, now - begin);
  }
  return step;
}

function runsFor(sampleMs, runMs) {
  return runMs > 0 ? Math.min(Math.floor(sampleMs / runMs) + 1, 2 ** 31) : 1024;
}

/** Runs until it is warm; gives how many runs a sample needs. `firstMs`: time of one run that was made already. */
function warmUp(candidate, sampleMs, firstMs) {
  let before = firstMs;
  for (let spent = firstMs; spent < WARM_MS;) {
    const runs = Math.max(Math.floor(runsFor(sampleMs, before) / 4), 1), ms = candidate.run(runs), now = ms / runs;
    spent += Math.max(ms, 1e-3);
    const steady = now > 0 && Math.abs(before - now) < now * STEADY;
    before = now;
    if (steady) break;
  }
  return runsFor(sampleMs, before);
}

const median = sorted => (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.floor(sorted.length / 2)]) / 2;

/** Half of the median's 95 % interval over the median: order statistics of a binomial distribution, as base/stats.c. */
function interval(samples) {
  const sorted = Float64Array.from(samples).sort(), count = sorted.length;
  let below = 0, rank = 0, chance = 2 ** -count;
  for (let k = 0; k < count && chance > 0; k++) {
    below += chance;
    if (below > 0.025) break;
    chance *= (count - k) / (k + 1);
    rank = k + 1;
  }
  const low = sorted[Math.max(rank - 1, 0)], high = sorted[Math.min(count - rank, count - 1)], middle = median(sorted);
  return middle > 0 ? (high - low) / 2 / middle : 1;
}

function stopOf(policy, samples, spentMs) {
  const most = Math.min(policy.samples_max, SAMPLES_MAX);
  if (samples.length < Math.min(policy.samples_min, most)) return STOP.none;
  if (interval(samples) <= policy.interval) return STOP.converged;
  if (samples.length >= most) return STOP.countCap;
  return spentMs * NS >= policy.total_ns ? STOP.timeCap : STOP.none;
}

/**
 * Times candidates in turns until none needs more samples; {samples_ns, runs, stop} of each. `firstMs`: of each, a run that
 * was made already. A single one is given up where its first samples are all slower per run than `raceNs` (0: never).
 */
export function time(candidates, policy, firstMs, raceNs) {
  const sampleMs = Math.max(policy.sample_ns / NS, clockStep() * CLOCK_STEPS);
  const timed = candidates.map((candidate, i) => ({candidate, runs: warmUp(candidate, sampleMs, firstMs[i]), samples: [], spentMs: 0, stop: STOP.none}));
  for (let round = 0; timed.some(one => one.stop === STOP.none); round++) {
    for (const one of round % 2 ? [...timed].reverse() : timed) {
      if (timed.length > 1) one.candidate.run(1);
      const ms = one.candidate.run(one.runs);
      one.spentMs += ms;
      one.samples.push(Math.max(Math.round(ms * NS), 1));
    }
    for (const one of timed) one.stop = stopOf(policy, one.samples, one.spentMs);
    const [first] = timed;
    if (timed.length === 1 && raceNs > 0 && first.samples.length >= RACE_SAMPLES &&
        Math.min(...first.samples.slice(0, RACE_SAMPLES)) > raceNs * first.runs)
      first.stop = STOP.raced;
  }
  return timed.map(({samples, runs, stop}) => ({samples_ns: samples, runs, stop}));
}
