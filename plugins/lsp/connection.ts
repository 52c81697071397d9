/** A JSON-RPC connection to a program that speaks the Language Server Protocol on its stdin and stdout. */

import { PassThrough, Writable } from "node:stream";
import type { Child } from "rnix/plugin";
import {
  createMessageConnection,
  type MessageConnection,
  StreamMessageReader,
  StreamMessageWriter,
} from "vscode-jsonrpc/node";

/** The end of stderr, for the message about a server that failed. */
const LAST_STDERR = 2_000;

export interface ServerConnection {
  rpc: MessageConnection;
  /** Resolves when the program has ended: by which code or signal, with the end of its stderr. */
  ended: Promise<ServerEnd>;
}

export interface ServerEnd {
  code: number | null;
  signal: string | null;
  stderr: string;
}

export function connect(child: Child): ServerConnection {
  const output = new PassThrough();
  const input = new Writable({
    write(chunk: Buffer, _encoding, done) {
      child.write(chunk).then(() => done(), done);
    },
  });
  // The program's end is reported by `ended`; a write to a program that has gone is not another one.
  input.on("error", () => undefined);
  const rpc = createMessageConnection(new StreamMessageReader(output), new StreamMessageWriter(input));
  rpc.onError(() => undefined);
  const ended = follow(child, output);
  void ended.then(() => rpc.dispose());
  return { rpc, ended };
}

async function follow(child: Child, output: PassThrough): Promise<ServerEnd> {
  let stderr = "";
  const text = new TextDecoder();
  for (let piece = await child.read(); piece !== null; piece = await child.read()) {
    if (piece.fd === 2) stderr = (stderr + text.decode(piece.data, { stream: true })).slice(-LAST_STDERR);
    // A server that floods is read no faster than its messages are.
    else if (!output.write(piece.data)) await new Promise((resolve) => output.once("drain", resolve));
  }
  output.end();
  const { code, signal } = await child.exited();
  return { code, signal, stderr: stderr.trim() };
}
