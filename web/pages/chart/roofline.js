// The roofline of a target, and where schedules of tasks lie under it: operations per second over operations per byte.
import {s} from '../dom.js';
import {bytes, flops, number} from '../format.js';
import {axes} from './axes.js';
import {extent} from './scale.js';
import {roof} from './series.js';

/** roofline({width, height, peak, bandwidth, points: [{name, intensity, rate, tone}]}): rates in operations per second; without a bandwidth the roof is flat. */
export function roofline({width, height, peak, bandwidth = Infinity, points}) {
  const known = points.filter(point => point.intensity > 0 && point.rate > 0);
  if (!(peak > 0) || known.length === 0) return null;
  const ridge = peak / bandwidth;
  const around = known.flatMap(point => [point.intensity / 8, point.intensity * 8]);
  const [low, high] = extent([...around, ...(ridge > 0 ? [ridge / 8, ridge * 8] : [])]);
  const [slowest, fastest] = extent([...known.map(point => point.rate), roof(low, peak, bandwidth), peak]);
  const at = axes({
    width, height,
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
  if (ridge > 0) at.svg.append(s('text', {class: 'tick', x: at.plot.right, y: at.plot.bottom - 8, 'text-anchor': 'end'}, `memory ${bytes(bandwidth)}/s`));
  for (const {name, intensity, rate, tone} of known)
    at.svg.append(s('circle', {class: `fill-${tone}`, cx: at.x(intensity), cy: at.y(rate), r: 5}, s('title', {}, `${name}: ${flops(rate)}`)));
  return {svg: at.svg};
}
