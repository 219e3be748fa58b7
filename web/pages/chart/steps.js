// A filled staircase: memory in use at each step of a run.
import {s} from '../dom.js';
import {axes} from './axes.js';

/** steps({width, height, values, mark: {value, text}, format, title}): one value per step. */
export function steps({width, height, values, mark, format, title}) {
  if (values.length === 0) return null;
  const top = Math.max(...values, mark?.value ?? 0, 1);
  const at = axes({
    width, height,
    x: {domain: [0, values.length], exact: true, kind: 'linear', title: 'step', format: String},
    y: {domain: [0, top * 1.05], exact: true, kind: 'linear', title, format},
  });
  const line = values.map((value, step) => `${step ? 'L' : 'M'}${at.x(step).toFixed(1)},${at.y(value).toFixed(1)}H${at.x(step + 1).toFixed(1)}`).join('');
  at.svg.append(
    s('path', {class: 'band fill-tone-1', d: `${line}V${at.plot.bottom}H${at.plot.left}Z`}),
    s('path', {class: 'curve stroke-tone-1', d: line}));
  if (mark) {
    at.svg.append(s('line', {class: 'mark', x1: at.plot.left, x2: at.plot.right, y1: at.y(mark.value), y2: at.y(mark.value)}),
      s('text', {class: 'tick', x: at.plot.right, y: at.y(mark.value) - 5, 'text-anchor': 'end'}, mark.text));
  }
  return {svg: at.svg};
}
