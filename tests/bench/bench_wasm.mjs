// What bench_wasm.py prints: PACKAGE PEAK.wasm ROUNDS NAME=MODULE...; the first module is the one whose calls are timed.
import fs from 'node:fs';
import {pathToFileURL} from 'node:url';

const [, , folder, peakPath, rounds, ...modules] = process.argv;
const kiln = await import(pathToFileURL(`${folder}/kiln.js`));

const CALLS = 20000; // of a tiny kernel, so that the clock of the processor is fine enough

const median = values => values.sort((a, b) => a - b)[values.length >> 1];

/** Milliseconds that the processor works for a call: on a busy machine less than goes by. */
function time(count, call) {
  const start = process.cpuUsage();
  for (let i = 0; i < count; i++) call();
  return process.cpuUsage(start).user / 1000 / count;
}

async function timeAwaited(count, call) {
  const start = process.cpuUsage();
  for (let i = 0; i < count; i++) await call();
  return process.cpuUsage(start).user / 1000 / count;
}

async function overhead(path) {
  const m = await kiln.load(path), inputs = {};
  for (const {name} of m.inputs) inputs[name] = m.input(name).slice();
  m.profile(100000); // until the engine has compiled everything for good
  const steps = Math.min(...Array.from({length: 20}, () => m.profile(1000).reduce((sum, {ms}) => sum + ms, 0)));
  const bound = [], fresh = [];
  for (let i = 0; i < rounds; i++) {
    bound.push(time(CALLS, () => m.call()));
    fresh.push(await timeAwaited(CALLS, () => m.run(inputs)));
  }
  const us = ms => (1000 * ms).toFixed(2);
  console.log(`a call, bound: ${us(median(bound))} us; with fresh arrays: ${us(median(fresh))} us; its steps, with a clock around them: ${us(steps)} us`);
}

const peak = (await WebAssembly.instantiate(fs.readFileSync(peakPath))).instance.exports;
const PEAK_TIMES = 2000000, PEAK_FLOPS = PEAK_TIMES * 12 * 4 * 2;
const peakNow = () => PEAK_FLOPS / time(1, () => peak.run(PEAK_TIMES)) / 1e6;
for (let i = 0; i < 3; i++) peakNow(); // until the engine has compiled it for good

async function network(name, path) {
  const began = performance.now(), m = await kiln.load(path), load = performance.now() - began;
  const first = performance.now();
  m.call();
  const firstMs = performance.now() - first, flops = m.steps.reduce((sum, step) => sum + step.flops, 0);
  for (let i = 0; i < rounds; i++) m.call();
  await new Promise(done => setTimeout(done, 500)); // engines compile beside what runs, at last what runs often
  const times = [], peaks = [];
  for (let i = 0; i < rounds; i++) { // in turns, so that a busy machine is busy for both
    peaks.push(peakNow());
    times.push(time(5, () => m.call()));
  }
  const ms = median(times), rate = flops / ms / 1e6, best = median(peaks);
  console.log(name.padEnd(12), load.toFixed(0).padStart(8), firstMs.toFixed(1).padStart(8), ms.toFixed(3).padStart(9), rate.toFixed(1).padStart(8),
    best.toFixed(1).padStart(6), (rate / best).toFixed(2).padStart(5));
  m.close();
}

const [empty, ...networks] = modules.map(one => one.split('='));
await overhead(empty[1]);
console.log('module        load ms first ms        ms  GFLOP/s   peak share');
for (const [name, path] of networks) await network(name, path);
