/** Calls a tool or a device without a model, for `rnix call`. */

import { messageOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { CallWire, Target } from "../../protocol/methods.ts";
import type { Payload } from "../../server/methods/method-table.ts";
import { EXIT, errorCodeOf, exitCodeOf } from "../exit.ts";
import { type Io, project, withSession } from "../io.ts";
import { jsonText } from "../output/print.ts";
import { lastRun } from "../processes/target.ts";

type Wanted = Pick<Payload<"call">, "tool" | "path" | "input" | "trust"> & {
  /** The run that the call is about; "last": the project's last one. */
  run?: Target | "last";
};

/** What a device's command calls. */
export type CallTarget = Pick<Wanted, "tool" | "path" | "input" | "run">;

interface CallOptions {
  json: boolean;
  /** Makes the call in this command, without the daemon. */
  inside: boolean;
  /** Text ends with a line break. */
  line: boolean;
}

/** Makes one call, prints its result to stdout and its error to stderr, and returns the exit code. */
export async function directCall(io: Io, wanted: Wanted, o: CallOptions): Promise<number> {
  const made = await request(io, wanted, o.inside).catch((error: unknown) => {
    if (o.json) io.stdout.write(jsonText(notMade(wanted, error)));
    throw error;
  });
  // Notices about parts that were left out do not concern a call that was made.
  const { notices: _, ...record } = made;
  if (o.json) io.stdout.write(jsonText(record));
  else if (made.result !== null && !print(io, made, o)) return EXIT.error;
  if (made.error !== null) {
    io.stderr.write(`${made.name ?? made.path}: ${made.error_code} ${made.error}\n`);
    return EXIT.error;
  }
  if (!made.truncated) return EXIT.ok;
  io.stderr.write(`${made.path}: truncated after ${made.result?.length} characters; the rest was not read\n`);
  return EXIT.error;
}

/** Makes one call and gives its text to `print`. Throws the error of a call that failed. */
export async function callForResult(
  io: Io,
  wanted: CallTarget,
  inside: boolean,
  print: (result: string) => void,
): Promise<number> {
  const made = await request(io, wanted, inside);
  if (made.error !== null) throw new SyscallError(made.error_code ?? "INTERNAL", made.error);
  if (made.truncated)
    throw new SyscallError("EXHAUSTED", `the result is longer than ${made.result?.length} characters`);
  print(made.result ?? "");
  return EXIT.ok;
}

function request(io: Io, wanted: Wanted, inside: boolean): Promise<CallWire> {
  return withSession(io, { inside }, async (session) => {
    const wire = await session.connect();
    const run = wanted.run === "last" ? await lastRun(io, wire) : wanted.run;
    // The tool has its own deadline.
    return wire.request("call", { ...project(io), ...wanted, run }, { timeoutMs: null });
  });
}

/** Returns false for bytes that a terminal can't show. */
function print(io: Io, { result, encoding, path }: CallWire, { line }: CallOptions): boolean {
  const text = result ?? "";
  if (encoding === "utf8") {
    io.stdout.write(line && text !== "" && !text.endsWith("\n") ? `${text}\n` : text);
    return true;
  }
  const bytes = Buffer.from(text, "base64");
  if (!io.stdout.isTTY) {
    io.stdout.writeBytes(bytes);
    return true;
  }
  io.stderr.write(
    `${path}: ${bytes.length} bytes that are no text; write them to a file: rnix cat ${path} > FILE\n`,
  );
  return false;
}

/** The output of --json for a call that could not be made. */
function notMade({ tool, path, input }: Wanted, error: unknown): object {
  const message = messageOf(error);
  return {
    name: tool ?? null,
    path: path ?? null,
    input: input ?? null,
    state: "failed",
    result: null,
    error: message,
    error_code: errorCodeOf(error),
    exit_code: exitCodeOf(error),
  };
}
