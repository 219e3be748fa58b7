// How candidates are timed, as rpc-server/timing.h does it: until warm, in samples that are long enough for the clock, until
// the median is known well enough. Samples beside a slow reading of the reference kernel (pace.js) are taken again.
const CLOCK_STEPS = 200; // a sample lasts so many steps of the clock: that is within 0.5 %
const SAMPLES_MAX = 1024;
const RACE_SAMPLES = 3;
const WARM_MS = 10;
const STEADY = 0.05;
/** The most time spent on repeated samples, as a multiple of total_ns, and the most tries in a row. */
const PATIENCE = 2, PATIENCE_MAX_MS = 1000, DISTURBED_MAX = 8;
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

export const median = sorted => (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.floor(sorted.length / 2)]) / 2;

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

/** Samples, with the reference kernel read between them. */
class Sampler {
  #pace;
  #patienceMs;
  #inRow = 0; // disturbed tries
  #mostInRow;
  #before;

  constructor(pace, policy, count) {
    this.#pace = pace;
    this.#mostInRow = DISTURBED_MAX * count;
    this.#patienceMs = PATIENCE * count * Math.min(policy.total_ns / NS, PATIENCE_MAX_MS);
    this.#before = pace?.read();
  }

  /** A neighbour stays for longer than a sample: the slower one of both readings shows it. */
  #try({candidate, runs}) {
    const ms = candidate.run(runs), before = this.#before, after = this.#pace?.read();
    this.#before = after;
    if (after === undefined) return {ms, drift: 0, isDisturbed: false};
    const usual = this.#pace.usual, isDisturbed = usual.isSlow(Math.max(before, after) / usual.ms);
    this.#inRow = isDisturbed ? this.#inRow + 1 : 0;
    if (this.#inRow === this.#mostInRow) this.#patienceMs = 0;
    return {ms, drift: (before + after) / 2 / usual.ms, isDisturbed};
  }

  /** The least disturbed of as many tries as patience allows. */
  take(one) {
    let best = this.#try(one);
    while (best.isDisturbed && this.#patienceMs > 0) {
      const next = this.#try(one);
      this.#patienceMs -= next.ms;
      one.again++;
      if (!next.isDisturbed || next.drift < best.drift) best = next;
    }
    one.spentMs += best.ms;
    one.tries.push(best);
  }
}

/** Rounds in which no candidate was disturbed; all of them where these are too few. Rounds stay whole. */
function keepQuiet(timed, least) {
  const isQuiet = round => timed.every(({tries}) => !tries[round].isDisturbed);
  const quiet = [...timed[0].tries.keys()].filter(isQuiet);
  if (quiet.length < least) return;
  for (const one of timed) {
    one.again += one.tries.length - quiet.length;
    one.tries = quiet.map(round => one.tries[round]);
  }
}

const samplesOf = ({tries}) => tries.map(({ms}) => Math.max(Math.round(ms * NS), 1));
const driftOf = ({tries}) => median(Float64Array.from(tries, ({drift}) => drift).sort());

/**
 * Times candidates in turns until none needs more samples; {samples_ns, runs, stop, drift, again} of each. `firstMs`: of each, a
 * run that was made already. A single one is given up where its first samples are all slower per run than `raceNs` (0: never),
 * by more than what slows the board. `pace`: undefined where nothing is read, and drift is 0 then.
 */
export function time(candidates, policy, firstMs, raceNs, pace) {
  const sampleMs = Math.max(policy.sample_ns / NS, clockStep() * CLOCK_STEPS), least = Math.max(policy.samples_min, 1);
  const timed = candidates.map((candidate, i) =>
    ({candidate, runs: warmUp(candidate, sampleMs, firstMs[i]), tries: [], again: 0, spentMs: 0, stop: STOP.none}));
  const sampler = new Sampler(pace, policy, timed.length);
  for (let round = 0; timed.some(one => one.stop === STOP.none); round++) {
    for (const one of round % 2 ? [...timed].reverse() : timed) {
      if (timed.length > 1) one.candidate.run(1);
      sampler.take(one);
    }
    for (const one of timed) one.stop = stopOf(policy, samplesOf(one), one.spentMs);
    const [first] = timed, samples = samplesOf(first);
    if (timed.length === 1 && raceNs > 0 && samples.length >= RACE_SAMPLES &&
        Math.min(...samples.slice(0, RACE_SAMPLES)) > raceNs * Math.max(driftOf(first), 1) * first.runs)
      first.stop = STOP.raced;
  }
  if (timed[0].stop !== STOP.raced) keepQuiet(timed, least);
  return timed.map(one => ({samples_ns: samplesOf(one), runs: one.runs, stop: one.stop, drift: driftOf(one), again: one.again}));
}
