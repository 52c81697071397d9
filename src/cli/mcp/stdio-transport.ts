/** MCP over the stdin and stdout of a command. */

import { ReadBuffer, serializeMessage } from "@modelcontextprotocol/sdk/shared/stdio.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import type { Io } from "../io.ts";

/** Bytes of one message of the client. */
const MAX_BYTES = 32 * 1024 * 1024;

export class StdioTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #io: Io;
  readonly #buffer = new ReadBuffer({ maxBufferSize: MAX_BYTES });

  constructor(io: Io) {
    this.#io = io;
  }

  async start(): Promise<void> {
    void this.#read().then(
      () => this.close(),
      (error: unknown) => {
        this.onerror?.(error instanceof Error ? error : new Error(String(error)));
        return this.close();
      },
    );
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.#io.stdout.write(serializeMessage(message));
    await this.#io.stdout.drained();
  }

  async close(): Promise<void> {
    this.onclose?.();
  }

  async #read(): Promise<void> {
    for (let chunk = await this.#io.stdin.read(); chunk !== null; chunk = await this.#io.stdin.read()) {
      this.#buffer.append(Buffer.from(chunk));
      for (let more = true; more; ) more = this.#next();
    }
  }

  /** A line that is no message is reported, and the next one is read. */
  #next(): boolean {
    try {
      const message = this.#buffer.readMessage();
      if (message !== null) this.onmessage?.(message);
      return message !== null;
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
      return true;
    }
  }
}
