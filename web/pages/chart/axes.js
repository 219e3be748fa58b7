// Two axes with ticks, a grid and titles: what line and scatter charts are drawn on.
import {s} from '../dom.js';
import {padded, scale} from './scale.js';

const TICK_PX = {x: 90, y: 42}; // one tick about every so many

/** Width of a character of a tick, about: texts of charts grow with the page's. */
export const characterPx = () => 0.4 * parseFloat(getComputedStyle(document.documentElement).fontSize);

/**
 * axes({width, height, x, y}) with x, y: {domain, kind, title, format}. Gives {svg, plot, x, y}: scales from values to px, the
 * rectangle between the axes, and the svg to draw into.
 */
export function axes({width, height, x, y}) {
  const character = characterPx();
  const domainX = x.exact ? x.domain : padded(x.domain, x.kind, x.kind === 'time' ? 0.02 : 0.03);
  const domainY = y.exact ? y.domain : padded(y.domain, y.kind);
  const wantedY = Math.max(2, Math.round(height / TICK_PX.y));
  const labels = scale(y.kind, domainY, [1, 0], wantedY).ticks.map(y.format);
  const left = Math.ceil(Math.max(28, ...labels.map(label => label.length * character + 10)));
  const plot = {left, top: 18, right: width - 12, bottom: height - (x.title ? 42 : 26)};
  const scaleX = scale(x.kind, domainX, [plot.left, plot.right], Math.max(2, Math.round((plot.right - left) / TICK_PX.x)));
  const scaleY = scale(y.kind, domainY, [plot.bottom, plot.top], wantedY);

  const svg = s('svg', {class: 'chart', viewBox: `0 0 ${width} ${height}`, width, height});
  const grid = s('g', {'aria-hidden': 'true'});
  for (const value of scaleY.ticks) {
    const at = scaleY(value);
    grid.append(s('line', {class: 'gridline', x1: plot.left, x2: plot.right, y1: at, y2: at}),
      s('text', {class: 'tick', x: plot.left - 6, y: at + 3.5, 'text-anchor': 'end'}, y.format(value)));
  }
  grid.append(s('line', {class: 'axis', x1: plot.left, x2: plot.right, y1: plot.bottom, y2: plot.bottom}));
  let free = -Infinity;
  for (const value of scaleX.ticks) {
    const text = x.format(value);
    const half = text.length * character / 2;
    const at = scaleX(value);
    if (at - half < free || at + half > width) continue;
    free = at + half + 8;
    grid.append(s('line', {class: 'axis', x1: at, x2: at, y1: plot.bottom, y2: plot.bottom + 4}),
      s('text', {class: 'tick', x: at, y: plot.bottom + 16, 'text-anchor': 'middle'}, text));
  }
  if (x.title) grid.append(s('text', {class: 'tick', x: (plot.left + plot.right) / 2, y: height - 6, 'text-anchor': 'middle'}, x.title));
  if (y.title) grid.append(s('text', {class: 'tick', x: 2, y: 10}, y.title));
  svg.append(grid);
  const afterTitle = Math.max(plot.left, 2 + (y.title?.length ?? 0) * character + 18);
  return {svg, plot, afterTitle, x: scaleX, y: scaleY};
}

/** Names of series with their marks above the plot, the first ones where there is no room for all: the words name every one. */
export function legend(svg, plot, series, from = plot.left) {
  const character = characterPx();
  const group = s('g', {'aria-hidden': 'true'});
  let left = from;
  for (const {name, tone} of series) {
    const wide = name.length * character + 14;
    if (left + wide > plot.right) break;
    group.append(s('circle', {class: `fill-${tone}`, cx: left + 4, cy: 6.5, r: 3.5}), s('text', {class: 'tick', x: left + 12, y: 10}, name));
    left += wide + 12;
  }
  svg.append(group);
}
