// Filled staircases on top of each other: memory in use at each step of a run.
import {s} from '../dom.js';
import {axes} from './axes.js';

/** Sums of the first, of the first two, ... of lists of values. Pure. */
export const stacked = lists => lists.map((_, index) => lists[0].map((__, step) => lists.slice(0, index + 1).reduce((sum, list) => sum + list[step], 0)));

const UNITS = [2 ** 30, 2 ** 20, 2 ** 10, 1]; // of bytes: ticks are round numbers of them

/** steps({width, height, series: [{name, tone, values}], mark: {value, text}, format, title}): bytes at each step, the first series at the bottom. */
export function steps({width, height, series, mark, format, title}) {
  if (!series.length || series[0].values.length === 0) return null;
  const sums = stacked(series.map(one => one.values));
  const most = Math.max(...sums.at(-1), mark?.value ?? 0, 1);
  const unit = UNITS.find(one => most >= one);
  const tops = sums.map(values => values.map(value => value / unit));
  const at = axes({
    width, height, series,
    x: {domain: [0, tops[0].length], exact: true, kind: 'linear', title: 'step', format: String},
    y: {domain: [0, most / unit * 1.08], exact: true, kind: 'linear', title, format: value => format(value * unit)},
  });
  for (let k = series.length - 1; k >= 0; k--) {
    const line = tops[k].map((value, step) => `${step ? 'L' : 'M'}${at.x(step).toFixed(1)},${at.y(value).toFixed(1)}H${at.x(step + 1).toFixed(1)}`).join('');
    const under = k ? tops[k - 1].map((value, step) => `H${at.x(step + 1).toFixed(1)}V${at.y(value).toFixed(1)}H${at.x(step).toFixed(1)}`).reverse().join('') : `V${at.plot.bottom}H${at.plot.left}`;
    at.svg.append(
      s('path', {class: `band fill-${series[k].tone}`, d: `${line}${under}Z`}),
      s('path', {class: `curve stroke-${series[k].tone}`, d: line}));
  }
  if (mark) {
    at.svg.append(s('line', {class: 'mark', x1: at.plot.left, x2: at.plot.right, y1: at.y(mark.value / unit), y2: at.y(mark.value / unit)}),
      s('text', {class: 'tick', x: at.plot.right, y: at.y(mark.value / unit) - 5, 'text-anchor': 'end'}, mark.text));
  }
  return {svg: at.svg};
}
