import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Framer, MAX_ANSWER_BYTES } from "../../src/protocol/frame.ts";
import type { ByteStream } from "../../src/server/connection/connection.ts";
import { serve, TRANSPORTS } from "./support/fixture.ts";

/**
 * Plays the conversations in `conversations/`: what is sent and what must come back, byte for byte except
 * values written "*". A line begins with
 *   `> `   a line to send                    `< `   a line that comes
 *   `>~ `  a JSON string, sent as it is      `<|`   the server closes the connection
 *   `>|`   this side is closed for sending   `# `   a remark
 * A letter before these is another connection of the same client's: `b> `.
 */
const FOLDER = join(import.meta.dir, "conversations");

describe("a conversation", () => {
  for (const file of readdirSync(FOLDER).sort()) {
    for (const transport of TRANSPORTS) {
      test(`${file.replace(/\.txt$/, "").replaceAll("-", " ")} (${transport})`, async () => {
        await using server = await serve(transport);
        const talkers = new Map<string, Talker>();
        for (const { who, kind, text } of script(join(FOLDER, file))) {
          const talker = talkers.get(who) ?? new Talker(await server.connect());
          talkers.set(who, talker);
          if (kind === ">") talker.stream.write(`${text}\n`);
          else if (kind === ">~") talker.stream.write(String(JSON.parse(text)));
          else if (kind === ">|") talker.stream.end();
          else if (kind === "<|") expect(await talker.next()).toBe(null);
          else expect(masked(await talker.next(), JSON.parse(text))).toEqual(JSON.parse(text));
        }
        for (const talker of talkers.values()) talker.stream.destroy();
      });
    }
  }
});

interface Line {
  who: string;
  kind: string;
  text: string;
}

function script(file: string): Line[] {
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.flatMap((line) => {
    if (line === "" || line.startsWith("#")) return [];
    const match = /^([a-z]?)(>~|>\||<\||>|<)(?: (.*))?$/.exec(line);
    if (!match) throw new Error(`${file}: not a line of a conversation: ${line}`);
    const [, who = "", kind = "", text = ""] = match;
    return [{ who, kind, text }];
  });
}

/** One connection, read line by line. */
class Talker {
  readonly stream: ByteStream;
  readonly #framer = new Framer(MAX_ANSWER_BYTES);
  readonly #lines: (unknown | null)[] = [];
  #wake: (() => void) | undefined;
  #ended = false;

  constructor(stream: ByteStream) {
    this.stream = stream;
    stream.on("data", (chunk: Buffer) => {
      for (const frame of this.#framer.push(chunk)) {
        if (frame.kind !== "line") throw new Error(`not a line of JSON: ${frame.kind}`);
        this.#push(JSON.parse(frame.text));
      }
    });
    // Closed while our bytes are unread, the connection is reset without an "end".
    stream.on("error", () => this.#end());
    stream.on("end", () => this.#end());
  }

  /** The next line; null when the server has closed. */
  async next(): Promise<unknown> {
    while (this.#lines.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    return this.#lines.shift();
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#push(null);
  }

  #push(line: unknown): void {
    this.#lines.push(line);
    this.#wake?.();
  }
}

/** The value with "*" wherever the expected one has it; of objects only where the key is there. */
function masked(value: unknown, expected: unknown): unknown {
  if (expected === "*" && value !== undefined) return "*";
  if (Array.isArray(value) && Array.isArray(expected))
    return value.map((item, i) => masked(item, expected[i]));
  if (!isRecord(value) || !isRecord(expected)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, masked(item, expected[key])]));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
