// The roofline of a target, and where schedules of tasks lie under it: operations per second over operations per byte.
import {s} from '../dom.js';
import {bytes, flops, number} from '../format.js';
import {axes} from './axes.js';
import {extent} from './scale.js';
import {roof} from './series.js';

const TONES = ['tone-2', 'tone-3', 'tone-5', 'tone-7']; // of memory and caches; points have others

/**
 * roofline({width, height, peak, levels: [{name, bytes_per_s}], isBound, points: [{name, intensity, rate, tone}]}): rates in operations
 * per second. Levels, memory first, are lines that rise to the peak; `isBound` says that memory bounds these points, so that it is
 * their roof: else the roof is the peak alone, and lines are drawn for comparison.
 */
export function roofline({width, height, peak, levels = [], isBound = true, points}) {
  const known = points.filter(point => point.intensity > 0 && point.rate > 0);
  if (!(peak > 0) || known.length === 0) return null;
  const lines = levels.map((level, index) => ({name: `${level.name} ${bytes(level.bytes_per_s)}/s`, tone: TONES[index % TONES.length], rate: level.bytes_per_s, ridge: peak / level.bytes_per_s}));
  const bandwidth = isBound && lines.length ? lines[0].rate : Infinity;
  const ridge = peak / bandwidth;
  const around = known.flatMap(point => [point.intensity / 8, point.intensity * 8]);
  const [low, high] = extent([...around, ...lines.flatMap(line => [line.ridge / 4, line.ridge * 4])]);
  const [slowest, fastest] = extent([...known.map(point => point.rate), ...lines.slice(0, 1).map(line => roof(low, peak, line.rate)), peak]);
  const at = axes({
    width, height, series: [...known.map(({name, tone}) => ({name, tone})), ...lines],
    x: {domain: [low, high], kind: 'log', title: 'operations per byte', format: number},
    y: {domain: [slowest, fastest], kind: 'log', title: 'FLOP/s', format: value => flops(value).replace('FLOP/s', '')},
  });
  const left = at.x.invert(at.plot.left);
  const right = at.x.invert(at.plot.right);
  const corner = [left, ...(ridge > left && ridge < right ? [ridge] : []), right];
  const clampY = value => Math.min(at.plot.bottom, at.y(value));
  at.svg.append(
    s('path', {class: 'curve stroke-muted', d: corner.map((x, index) => `${index ? 'L' : 'M'}${at.x(x).toFixed(1)},${clampY(roof(x, peak, bandwidth)).toFixed(1)}`).join('')}),
    s('text', {class: 'tick', x: at.plot.right, y: at.y(peak) - 6, 'text-anchor': 'end'}, `peak ${flops(peak)}`));
  for (const line of lines) {
    const from = Math.max(left, at.y.invert(at.plot.bottom) / line.rate);
    if (from < line.ridge) at.svg.append(s('line', {class: `curve dash stroke-${line.tone}`, x1: at.x(from), y1: at.y(from * line.rate), x2: at.x(line.ridge), y2: at.y(peak)}));
  }
  for (const {name, intensity, rate, tone} of known)
    at.svg.append(s('circle', {class: `fill-${tone}`, cx: at.x(intensity), cy: at.y(rate), r: 5}, s('title', {}, `${name}: ${flops(rate)}`)));
  return {svg: at.svg};
}
