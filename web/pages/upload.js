// A resumable upload: pieces of a file, each at the offset that the server has.
import * as api from './api.js';

const PIECE_BYTES = 4 << 20;
const RETRIES_MAX = 5;
const RETRY_MS = 500;

const pause = ms => new Promise(resolve => { setTimeout(resolve, ms); });

/** Uploads a File; onProgress(bytes). Gives the name by which POST /compile takes it: its SHA-256, or the upload's. */
export async function upload(file, onProgress, signal) {
  const begun = await api.post('uploads', null, {headers: {'Upload-Length': String(file.size)}, signal});
  let {offset = 0} = begun;
  let last = begun;
  for (let failures = 0; offset < file.size;) {
    try {
      last = await api.patch(`uploads/${encodeURIComponent(begun.id)}`, file.slice(offset, offset + PIECE_BYTES), {'Upload-Offset': String(offset), 'Content-Type': 'application/octet-stream'}, signal);
      offset = last.offset;
      failures = 0;
      onProgress(offset);
    } catch (error) {
      const isPassing = error instanceof api.ApiError && (error.status === 0 || error.status >= 500 || error.status === 429);
      if (!isPassing || ++failures > RETRIES_MAX) throw error;
      await pause(RETRY_MS * 2 ** failures);
    }
  }
  return last.blob ?? begun.id;
}
