// Types of the board for pages.

export interface BoardOptions {
  /** Text of the file that `kiln key new board/NODE` wrote. */
  key: string;
  /** As `kiln fleet` shows it; the node of the key. */
  name?: string;
  /** The machine that it runs on, as the browser or node reports it. */
  device?: string;
  /** Labels that jobs may ask for, by name. */
  labels?: Record<string, string>;
  /**
   * Keeps the text of the next key (`kiln key rotate`) in place of `key`, for the next time the page is opened. The board goes on
   * with it once this has returned; the present one is good until the tracker has seen the next. Without it the board declines.
   */
  keyChanged?: (key: string) => void | Promise<void>;
  /** A line for people. */
  log?: (text: string) => void;
  /** A WebSocket for engines without one, such as node before version 22. */
  WebSocket?: unknown;
}

export interface Board {
  /** Settles when the board is closed; fails with Unauthenticated where the tracker does not let it in. */
  readonly closed: Promise<void>;
  close(): void;
}

/**
 * Offers this page, or node, to the tracker that listens at `url` (`kiln-tracker --listen ws:...`).
 * @throws {InvalidArgument} `key` is no key of a board
 */
export function serve(url: string, options: BoardOptions): Board;
