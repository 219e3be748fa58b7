// Horizontal bars with names: shares, outcomes, importance. A second value of a row is a thin mark (a weight, a default).
import {s} from '../dom.js';
import {characterPx} from './axes.js';

const ROW_PX = 26;
const BAR_PX = 14;

export const barsHeight = count => Math.max(1, count) * ROW_PX + 8;

/** bars({width, rows: [{name, value, tone, text, mark}], max}): the longest bar is `max`, or the largest value. */
export function bars({width, rows, max}) {
  if (rows.length === 0) return null;
  const character = characterPx();
  const height = barsHeight(rows.length);
  const share = value => (Number.isFinite(value) ? Math.min(1, Math.max(0, value / longest)) : 0);
  const longest = max ?? Math.max(...rows.flatMap(row => [row.value, row.mark]).filter(Number.isFinite), Number.MIN_VALUE);
  const shownCharacters = Math.floor(width * 0.4 / character);
  const cut = name => (name.length > shownCharacters ? `${name.slice(0, shownCharacters - 1)}…` : name);
  const left = Math.min(width * 0.42, Math.max(...rows.map(row => cut(row.name).length * character)) + 10);
  const right = Math.max(...rows.map(row => (row.text ?? '').length * character)) + 12;
  const room = Math.max(20, width - left - right);
  const svg = s('svg', {class: 'chart', viewBox: `0 0 ${width} ${height}`, width, height});
  rows.forEach((row, index) => {
    const top = index * ROW_PX + 4;
    const length = room * share(row.value);
    svg.append(
      s('text', {class: 'name', x: left - 8, y: top + BAR_PX - 2.5, 'text-anchor': 'end'}, cut(row.name), s('title', {}, row.name)),
      s('rect', {class: 'track', x: left, y: top, width: room, height: BAR_PX, rx: 3}),
      s('rect', {class: `fill-${row.tone ?? 'tone-1'}`, x: left, y: top, width: Math.max(length, row.value > 0 ? 2 : 0), height: BAR_PX, rx: 3}),
      s('text', {class: 'tick', x: left + room + 8, y: top + BAR_PX - 2.5}, row.text ?? ''));
    if (Number.isFinite(row.mark)) {
      const x = left + room * share(row.mark);
      svg.append(s('line', {class: 'bar-mark', x1: x, x2: x, y1: top - 3, y2: top + BAR_PX + 3}));
    }
  });
  return {svg};
}
