// Numbers, times and names as people read them. Pure: no document, no clock.

const NONE = '–';
const isNumber = value => typeof value === 'number' && Number.isFinite(value);

/** Three significant digits, without an exponent: 0.0123, 1.23, 12.3, 123, 1,234. */
export function number(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  if (size === 0) return '0';
  if (size >= 999.5) return count(value);
  const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : Math.min(3 - Math.floor(Math.log10(size)) - 1, 8);
  return value.toFixed(digits);
}

/** A whole number with a comma between thousands. */
export function count(value) {
  return isNumber(value) ? Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ',') : NONE;
}

function scaled(value, units) {
  const [size, unit] = units.find(([least]) => Math.abs(value) >= least) ?? units.at(-1);
  return `${number(value / size)} ${unit}`;
}

const TIME_UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

/** The time of a kernel: 1.23 µs. Zero stands for unknown in rows of Kiln. */
export const time = ns => (isNumber(ns) && ns > 0 ? scaled(ns, TIME_UNITS) : NONE);

/** A span of waiting: 42 s, 3 min 05 s, 2 h 10 min, 4 d 3 h. */
export function span(ms) {
  if (!isNumber(ms) || ms < 0) return NONE;
  const s = Math.round(ms / 1000);
  const two = value => String(value).padStart(2, '0');
  if (s < 120) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

/** How long ago, roughly: "3 h ago". */
export function ago(ms) {
  if (!isNumber(ms)) return NONE;
  const s = Math.max(ms, 0) / 1000;
  const [size, unit] = [[172800, 'days'], [7200, 'h'], [120, 'min']].find(([least]) => s >= least) ?? [0, 's'];
  return `${Math.floor(s / ({days: 86400, h: 3600, min: 60}[unit] ?? 1))} ${unit} ago`;
}

/** A point in time of this browser's zone: 2026-11-29 08:57:04. */
export function stamp(wallMs) {
  if (!isNumber(wallMs) || wallMs <= 0) return NONE;
  const date = new Date(wallMs);
  const two = value => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

const BYTE_UNITS = [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']];
export const bytes = value => (isNumber(value) ? scaled(value, BYTE_UNITS) : NONE);

const RATE_UNITS = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1, '']];
/** Floating operations per second: 123 GFLOP/s. */
export const flops = value => (isNumber(value) && value > 0 ? scaled(value, RATE_UNITS) + 'FLOP/s' : NONE);

export const percent = (share, digits = 0) => (isNumber(share) ? `${(100 * share).toFixed(digits)} %` : NONE);

/** A gain over something: 2.19×. */
export const times = ratio => (isNumber(ratio) && ratio > 0 ? `${number(ratio)}×` : NONE);

export const degrees = mc => (isNumber(mc) && mc !== 0 ? `${(mc / 1000).toFixed(1)} °C` : NONE);
export const clock = khz => (isNumber(khz) && khz > 0 ? `${(khz / 1e6).toFixed(2)} GHz` : NONE);

/** The beginning of an identity that was drawn; a name that a person gave stays whole. */
export const shortId = id => (/^[0-9a-f]{32,64}$/.test(id ?? '') ? id.slice(0, 8) : String(id ?? NONE));

/** "v2:6d14621a9f…" as "6d14621a": task keys carry a version of their hash. */
export const shortKey = key => shortId(String(key ?? '').replace(/^v\d+:/, ''));

/** {kind, name, detail} of a canonical target text: kind "cpu", name "x86-64-v4 · 2 cores". */
export function target(text) {
  const [, kind = '', rest = ''] = /^([^:,]*):?(.*)$/s.exec(text ?? '') ?? [];
  const words = rest.split(',');
  const value = name => words.find(word => word.startsWith(`${name}=`))?.slice(name.length + 1);
  const model = value('mcpu') ?? value('model') ?? words.find(word => word && !word.includes('=')) ?? '';
  const parts = [model.replace(/-unknown.*$/, '')];
  if (value('cores')) parts.push(`${value('cores')} cores`);
  if (value('threads') && value('threads') !== '1' && value('threads') !== value('cores')) parts.push(`${value('threads')} threads`);
  return {kind: kind || NONE, name: parts.filter(Boolean).join(' · ') || kind || NONE, detail: String(text ?? '')};
}

export const targetName = text => {
  const {kind, name} = target(text);
  return name === kind ? kind : `${kind} ${name}`;
};
