// Questions to the server: JSON in and out, its errors as exceptions, and the token that changes need.

export const ROOT = 'api/v1';

/** What the server refused: `code` is a name of base/status.def, `status` that of HTTP; 0: it did not answer. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
  }
}

let csrf = '';
let onSignedOut = () => {};

/** `handler` is called when the server no longer knows this session. */
export function whenSignedOut(handler) {
  onSignedOut = handler;
}

/** The address of a route with its filters; those that are empty are left out, lists are repeated. */
export function address(path, query = {}) {
  const asked = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const text = new URLSearchParams(asked.flatMap(([name, value]) => [value].flat().map(one => [name, String(one)]))).toString();
  return `${ROOT}/${path}${text && `?${text}`}`;
}

async function errorOf(response) {
  const told = await response.json().catch(() => null);
  return new ApiError(response.status, told?.error?.code ?? 'UNAVAILABLE', told?.error?.message ?? `the server answered ${response.status} ${response.statusText}`);
}

async function ask(method, path, {query, body, headers = {}, signal} = {}) {
  const changes = method !== 'GET' && method !== 'HEAD';
  const isJson = body !== undefined && body !== null && !(body instanceof Blob) && !(body instanceof FormData);
  let response;
  try {
    response = await fetch(address(path, query), {
      method, signal,
      credentials: 'same-origin',
      headers: {Accept: 'application/json', ...(changes && csrf && {'X-Kiln-CSRF': csrf}), ...(isJson && {'Content-Type': 'application/json'}), ...headers},
      body: isJson ? JSON.stringify(body) : body ?? undefined,
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'UNAVAILABLE', 'the server does not answer; the page tries again when it is back');
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  if (error.status === 401 && path !== 'session') onSignedOut();
  throw error;
}

const jsonOf = async response => (response.status === 204 ? null : response.json());

export const get = async (path, query, signal) => jsonOf(await ask('GET', path, {query, signal}));
/** `body`: an object as JSON; null: none. */
export const post = async (path, body, options = {}) => jsonOf(await ask('POST', path, {...options, body}));
export const remove = async path => jsonOf(await ask('DELETE', path));
export const patch = async (path, body, headers, signal) => jsonOf(await ask('PATCH', path, {body, headers, signal}));

/** A text of the server: {"text"} or text/plain. */
export async function text(path, signal) {
  const response = await ask('GET', path, {signal, headers: {Accept: 'application/json, text/plain'}});
  return response.headers.get('Content-Type')?.startsWith('application/json') ? (await response.json()).text ?? '' : response.text();
}

/** Who is signed in; remembers the token for changes. */
export async function me() {
  const person = await get('me');
  csrf = person.csrf ?? '';
  return person;
}

const PAGE = 1000;
const ITEMS_MAX = 100000;

/** All items of a list, page by page. */
export async function all(path, query = {}, signal) {
  const items = [];
  for (;;) {
    const page = await get(path, {...query, limit: PAGE, offset: items.length}, signal);
    items.push(...page.items);
    if (page.items.length === 0 || items.length >= Math.min(page.total ?? items.length, ITEMS_MAX)) return items;
  }
}

/** What `promise` gives, or null where the server has no such route or thing: the page then says so. */
export async function optional(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof ApiError && [404, 405, 501].includes(error.status)) return null;
    throw error;
  }
}
