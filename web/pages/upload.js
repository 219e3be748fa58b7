// A resumable upload: pieces of a file, each at the offset that the server has.
import * as api from './api.js';

const PIECE_BYTES = 4 << 20;
const RETRIES_MAX = 5;
const RETRY_MS = 500;

const pause = ms => new Promise(resolve => { setTimeout(resolve, ms); });

/** Whether the piece may be sent again: the server was away, has too much to do, or has other bytes than we think. */
const isPassing = error => error instanceof api.ApiError && (error.status === 0 || error.status >= 500 || error.status === 409 || error.status === 429);

/** Uploads a File; onProgress(bytes). Gives the name by which the server takes it: its SHA-256, or the upload's. */
export async function upload(file, onProgress, signal) {
  let last = await api.post('uploads', null, {headers: {'Upload-Length': String(file.size)}, signal});
  const place = `uploads/${encodeURIComponent(last.id)}`;
  for (let failures = 0; last.offset < file.size;) {
    const {offset} = last;
    try {
      last = await api.patch(place, file.slice(offset, offset + PIECE_BYTES), {'Upload-Offset': String(offset), 'Content-Type': 'application/octet-stream'}, signal);
    } catch (error) {
      if (!isPassing(error) || ++failures > RETRIES_MAX) throw error;
      await pause(RETRY_MS * 2 ** failures);
      last = await api.get(place, {}, signal).catch(() => last); // some of the piece may have come, or been lost by a server that was killed
    }
    if (last.offset > offset) failures = 0;
    onProgress(last.offset);
  }
  return last.blob ?? last.id;
}
