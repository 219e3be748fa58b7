// Workers, in pages and in node.

/** A worker that runs `url`; `message(data)` and `failed(error)` are called for what comes from it. */
export async function spawn(url, message, failed) {
  const worker = typeof Worker === 'function' ? new Worker(url, {type: 'module'}) : new (await import('node:worker_threads')).Worker(url);
  if (worker.on) worker.on('message', message).on('error', failed);
  else Object.assign(worker, {onmessage: ({data}) => message(data), onerror: event => failed(new Error(event.message || 'a worker did not start'))});
  return worker;
}
