/** What carries a client's bytes: a socket, or the memory of this command. */
export interface Pipe {
  /** Called once, before anything is written. After `closed` nothing more comes. */
  listen(listener: PipeListener): void;
  /** Never blocks: what is not taken yet is kept. */
  write(text: string): void;
  /** No more data for now: the other side is made to wait. */
  pause(): void;
  resume(): void;
  /** At once; what was not taken yet is lost. Safe to call again. */
  close(): void;
}

export interface PipeListener {
  data(chunk: Uint8Array): void;
  closed(cause?: Error): void;
}
