import { connect, type Socket } from "node:net";
import { z } from "zod";

/** What a server sends: an answer or a stream event. */
const Line = z.looseObject({
  ok: z.boolean().optional(),
  id: z.union([z.string(), z.number()]).optional(),
  type: z.string().optional(),
  payload: z.unknown().optional(),
  dropped: z.number().optional(),
  error: z.looseObject({ code: z.string(), message: z.string() }).optional(),
});
type Line = z.infer<typeof Line>;

/** A foreign client: it sends the given bytes, and reads only when asked. */
export class RawClient {
  /** Resolves when the connection has closed, from either side. */
  readonly closed: Promise<void>;
  readonly #stream: Socket;
  #text = "";

  static async connect(socket: string): Promise<RawClient> {
    const stream = connect({ path: socket, allowHalfOpen: true });
    const connected = Promise.withResolvers<void>();
    stream.once("error", connected.reject);
    stream.once("connect", () => connected.resolve());
    await connected.promise;
    return new RawClient(stream);
  }

  private constructor(stream: Socket) {
    this.#stream = stream;
    stream.on("error", () => stream.destroy());
    this.closed = new Promise((resolve) => stream.once("close", () => resolve()));
  }

  /** Resolves when the system has taken the bytes, or the connection has closed. */
  send(data: string | Uint8Array): Promise<void> {
    return new Promise((resolve) => this.#stream.write(data, () => resolve()));
  }

  async ask(method: string, payload: object = {}): Promise<Line> {
    await this.send(`${JSON.stringify({ method, payload })}\n`);
    return this.line();
  }

  /** The next line; rejects when the server closes without one. */
  async line(): Promise<Line> {
    for (;;) {
      const end = this.#text.indexOf("\n");
      if (end >= 0) {
        const line = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 1);
        return Line.parse(JSON.parse(line));
      }
      this.#text += await this.#more();
    }
  }

  /** Ends the sending side; the server may still answer. */
  end(): void {
    this.#stream.end();
  }

  destroy(): void {
    this.#stream.destroy();
  }

  async #more(): Promise<string> {
    for (;;) {
      const chunk: unknown = this.#stream.read();
      if (Buffer.isBuffer(chunk)) return chunk.toString("utf8");
      if (this.#stream.readableEnded || this.#stream.destroyed)
        throw new Error(`the server closed the connection; unread: ${JSON.stringify(this.#text)}`);
      await new Promise<void>((resolve) => {
        const done = (): void => {
          for (const event of EVENTS) this.#stream.off(event, done);
          resolve();
        };
        for (const event of EVENTS) this.#stream.on(event, done);
      });
    }
  }
}

const EVENTS = ["readable", "end", "close"] as const;
