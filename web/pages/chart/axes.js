// Two axes with ticks, a grid and titles: what line and scatter charts are drawn on.
import {s} from '../dom.js';
import {padded, scale} from './scale.js';

const TICK_PX = {x: 90, y: 42}; // one tick about every so many
const LEGEND_ROW_PX = 16;
const LEGEND_SHARE = 0.3; // of the height, at most

/** Width of a character of a tick, about: texts of charts grow with the page's. */
export const characterPx = () => 0.4 * parseFloat(getComputedStyle(document.documentElement).fontSize);

/**
 * axes({width, height, x, y, series}) with x, y: {domain, kind, title, format}; series: [{name, tone}], those that a legend names
 * if there are several. Gives {svg, plot, x, y}: scales from values to px, the rectangle between the axes, and the svg to draw into.
 */
export function axes({width, height, x, y, series = []}) {
  const character = characterPx();
  const domainX = x.exact ? x.domain : padded(x.domain, x.kind, x.kind === 'time' ? 0.02 : 0.03);
  const domainY = y.exact ? y.domain : padded(y.domain, y.kind);
  const wantedY = Math.max(2, Math.round(height / TICK_PX.y));
  const labels = scale(y.kind, domainY, [1, 0], wantedY).ticks.map(y.format);
  const left = Math.ceil(Math.max(28, ...labels.map(label => label.length * character + 10)));
  const afterTitle = Math.max(left, 2 + (y.title?.length ?? 0) * character + 18);
  const named = series.length > 1 ? arrange(series, {first: afterTitle, left, right: width - 12, rows: Math.max(1, Math.floor(LEGEND_SHARE * height / LEGEND_ROW_PX))}) : [];
  const plot = {left, top: 18 + LEGEND_ROW_PX * (named.at(-1)?.row ?? 0), right: width - 12, bottom: height - (x.title ? 42 : 26)};
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
  if (named.length) svg.append(legend(named));
  return {svg, plot, x: scaleX, y: scaleY};
}

/** Where each series' name stands, in rows above the plot; only the first ones where there is no room for all: the words name every one. */
function arrange(series, {first, left, right, rows}) {
  const placed = [];
  let [at, row] = [first, 0];
  for (const {name, tone} of series) {
    const wide = name.length * characterPx() + 14;
    if (at + wide > right && at > left) [at, row] = [left, row + 1];
    if (row >= rows) break;
    placed.push({name, tone, at, row});
    at += wide + 12;
  }
  return placed;
}

function legend(placed) {
  return s('g', {'aria-hidden': 'true'}, placed.map(({name, tone, at, row}) => [
    s('circle', {class: `fill-${tone}`, cx: at + 4, cy: 6.5 + row * LEGEND_ROW_PX, r: 3.5}),
    s('text', {class: 'tick', x: at + 12, y: 10 + row * LEGEND_ROW_PX}, name)]));
}
