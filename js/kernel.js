// Kernels as code generation makes them (docs/reference/wasm.md): what they import, and calls of them. Used by modules
// (module.js), by boards in pages and by tests.

/** Where __stack_pointer begins, and the table of functions: its entry 0 is parallel_for, bodies of loops follow. */
const TABLE_SIZE = 1024;

/**
 * Bytes of a module that exports what it imports: a JavaScript function becomes one that tables of WebAssembly hold.
 * (module (import "env" "f" (func (param i32 i64 i32 i32) (result i32))) (export "f" (func 0)))
 */
const WRAPPER = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 9, 1, 96, 4, 127, 126, 127, 127, 1, 127, 2, 9, 1, 3, 101, 110, 118, 1, 102, 0, 0, 7, 5, 1, 1, 102, 0, 0,
]);

export function halfToNumber(bits) {
  const exponent = bits >> 10 & 31, fraction = bits & 1023, sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24);
}

// To nearest, ties to even, in one rounding: in units of the last place every double of that size is exact.
export function numberToHalf(value) {
  const size = Math.abs(value), sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  let exponent = size ? Math.floor(Math.log2(size)) : -14;
  if (2 ** exponent > size) exponent--;
  if (2 ** (exponent + 1) <= size) exponent++;
  exponent = Math.max(exponent, -14);
  const units = size / 2 ** (exponent - 10);
  let whole = Math.floor(units);
  const rest = units - whole;
  if (rest > 0.5 || (rest === 0.5 && whole % 2)) whole++;
  return sign | (exponent + 14) * 1024 + whole;
}

/** Functions of deploy/runtime/kernel_services.def by name; undefined: JavaScript has none. */
function service(name, memory) {
  const bytes = () => new Uint8Array(memory.buffer);
  const own = {
    memcpy: (to, from, n) => (bytes().copyWithin(to, from, from + n), to),
    memmove: (to, from, n) => (bytes().copyWithin(to, from, from + n), to),
    memset: (to, value, n) => (bytes().fill(value, to, to + n), to),
    __extendhfsf2: halfToNumber,
    __extendhfdf2: halfToNumber,
    __truncsfhf2: numberToHalf,
    __truncdfhf2: numberToHalf,
    fmod: (a, b) => a % b,
    fmodf: (a, b) => a % b,
  };
  if (own[name]) return own[name];
  if (Math[name]) return Math[name];
  const double = Math[name.replace(/f$/, '')]; // the float one rounds what the double one gives
  return double && ((...args) => Math.fround(double(...args)));
}

/**
 * Instantiates a kernel over `memory`.
 *
 * `stack`: the address below which its stack lies. `loops(count, index, context, body)`: runs a loop of the kernel, as
 * parallel_for of base/kernel_abi.h, whose body is entry `index` of the table; without it the caller runs all iterations.
 * Gives the functions that the kernel exports, and `body(index)`: a function of the table.
 * @throws {Error} the kernel imports a function that JavaScript does not have
 */
export async function instantiate(module, memory, stack, loops) {
  const table = new WebAssembly.Table({element: 'anyfunc', initial: TABLE_SIZE});
  const env = {
    __linear_memory: memory,
    __indirect_function_table: table,
    __stack_pointer: new WebAssembly.Global({value: 'i32', mutable: true}, stack),
    __table_base: new WebAssembly.Global({value: 'i32', mutable: false}, 1),
  };
  const imports = WebAssembly.Module.imports(module);
  for (const {name, kind} of imports) {
    if (kind !== 'function') continue;
    env[name] = service(name, memory);
    if (!env[name]) throw new Error(`a kernel calls ${name}, which JavaScript does not have`);
  }
  const body = index => table.get(index);
  if (imports.some(({kind}) => kind === 'table')) {
    const run = loops || ((count, index, context, own) => own(context, 0n, count, 0));
    const f = (host, count, index, context) => (count > 0n ? run(count, index, context, body(index)) : 0);
    table.set(0, (await WebAssembly.instantiate(WRAPPER, {env: {f}})).instance.exports.f);
  }
  const instance = await WebAssembly.instantiate(module, {env});
  return {exports: instance.exports, body};
}
