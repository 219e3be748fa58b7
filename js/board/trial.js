// The worker of a board: measures one trial after the other, and is ended from outside where a candidate does not return.
import {Candidate, OUTCOME, Verdict} from './candidate.js';
import {parseReference} from './elements.js';
import {load} from '../kiln.js';
import {Pace} from './pace.js';
import {Parcel} from './parcel.js';
import {STOP, clockStep, median, time} from './timing.js';

/** proto/proto.h. */
const PHASE = {load: 2, warm: 3, run: 4, check: 5};
const POISON = {first: 0x7f, last: 0xff};
/** A kernel that is this many times faster than the measured peak has not done its work (rpc-server/verdict.h). */
const PEAK_MARGIN = 1.2;

const ended = error => {
  if (!(error instanceof Verdict)) throw error;
  return {outcome: error.outcome, text: error.message};
};

/** Fails where the samples are shorter than the core can be; an engine may have become faster since the peak was sought. */
function expectPossible(candidate, {samples_ns: samples, runs}, pace) {
  const ms = median(Float64Array.from(samples).sort()) / runs / 1e6, isTooFast = () => ms < candidate.leastMs(pace.peakFlops) / PEAK_MARGIN;
  if (isTooFast()) pace.seekPeak();
  if (!isTooFast()) return;
  throw new Verdict(OUTCOME.wrongResult, `${(ms * 1e6).toFixed(0)} ns per run is faster than this core can be ` +
      `(${(candidate.leastMs(pace.peakFlops) * 1e6).toFixed(0)} ns at its peak)`, candidate);
}

/** The trial's kernel and its rivals; those that fail drop out with their outcome. */
async function measure({artefacts, reference, seed, policy, raceNs}, enter, pace) {
  const expected = parseReference(reference), results = artefacts.map(() => ({outcome: OUTCOME.ok}));
  const candidates = [], firstMs = [];
  const attempt = async (i, what) => {
    if (results[i].outcome !== OUTCOME.ok) return;
    try {
      await what();
    } catch (error) {
      Object.assign(results[i], ended(error));
    }
  };
  const check = (i, poison, when) => {
    const {ms, said} = candidates[i].check(poison, expected, when);
    for (const name of Object.keys(said)) results[i][name] = Math.max(results[i][name] ?? 0, said[name]);
    results[i].checked = true;
    return ms;
  };

  enter(PHASE.load);
  for (const i of artefacts.keys()) {
    await attempt(i, async () => {
      candidates[i] = new Candidate(artefacts[i]);
      await candidates[i].load(seed);
    });
  }
  enter(PHASE.warm);
  for (const i of artefacts.keys()) {
    await attempt(i, () => {
      candidates[i].prepare();
      firstMs[i] = check(i, POISON.first, 'after the first call');
    });
  }
  if (results[0].outcome !== OUTCOME.ok) return results;
  enter(PHASE.run);
  const alive = () => [...artefacts.keys()].filter(i => results[i].outcome === OUTCOME.ok);
  for (let done = false; !done && results[0].outcome === OUTCOME.ok;) { // again without a rival that fails meanwhile
    const turns = alive();
    try {
      const timed = time(turns.map(i => candidates[i]), policy, turns.map(i => firstMs[i]), raceNs, pace);
      turns.forEach((i, k) => expectPossible(candidates[i], timed[k], pace));
      turns.forEach((i, k) => Object.assign(results[i], timed[k]));
      done = true;
    } catch (error) {
      Object.assign(results[candidates.indexOf(error.candidate)], ended(error));
    }
  }
  if (results[0].outcome !== OUTCOME.ok) return results;
  enter(PHASE.check);
  for (const i of alive())
    if (results[i].stop !== STOP.raced) await attempt(i, () => check(i, POISON.last, 'after the last timed call'));
  const [own] = results; // what is said of all
  own.peak_flops = pace.peakFlops;
  own.drift = Math.max(...results.map(({drift = 0}) => drift));
  own.again = results.reduce((sum, {again = 0}) => sum + again, 0);
  own.out_of_band = pace.usual.isOut(own.drift);
  return results;
}

let pace; // of this worker, from its first trial on

/** A module that is run, once per sample, and timed where that is asked for; `inputs` and what it leaves as deploy/run/parcel.h says. */
async function runModule({module, inputs, how}, enter) {
  enter(PHASE.load);
  let m;
  try {
    m = await load(module, {threads: how.threads});
    if (how.size) m.setSize(Number(how.size));
  } catch (error) {
    return [{outcome: OUTCOME.linkError, text: error.message}];
  }
  try {
    enter(PHASE.warm);
    const parcel = new Parcel(m, how, inputs);
    enter(PHASE.run);
    for (let sample = 0; sample < parcel.samples; sample++) parcel.run(sample);
    if (how.bench) parcel.time(pace.peakFlops);
    return [{outcome: OUTCOME.ok, outputs: parcel.outputs}];
  } catch (error) {
    return [{outcome: OUTCOME.crash, text: error.message}];
  } finally {
    m.close();
  }
}

async function serve(port, order) {
  try {
    pace ??= await Pace.create(clockStep());
    pace.learn();
    const enter = phase => port.postMessage({phase});
    const results = order.module ? await runModule(order, enter) : await measure(order, enter, pace);
    port.postMessage({results});
  } catch (error) {
    port.postMessage({results: [{outcome: OUTCOME.infra, text: String(error.message ?? error)}]});
  }
}

const listen = port => {
  port.onmessage = ({data}) => serve(port, data);
};
if (typeof self === 'object') listen(self);
else import('node:worker_threads').then(({parentPort}) => listen(parentPort));
