/** The interface of a client's transport. */

/** The transport of a client's bytes: a socket or a memory stream. */
export interface Pipe {
  /** Called once, before the first write. After `closed` no more events follow. */
  listen(listener: PipeListener): void;
  /** Never blocks: unsent bytes are buffered. */
  write(text: string): void;
  /** Pauses reading: the other side must wait. */
  pause(): void;
  resume(): void;
  /** Closes immediately; unsent bytes are lost. Safe to call again. */
  close(): void;
}

export interface PipeListener {
  data(chunk: Uint8Array): void;
  closed(cause?: Error): void;
}
