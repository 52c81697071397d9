/** The documents that a server has open, kept as they are on disk. */

import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { pathToFileURL } from "node:url";
import type { MessageConnection } from "vscode-jsonrpc/node";
import type { ServerKind } from "./servers.ts";

/** A server holds the text of each; the one that was shown longest ago is closed. */
const MAX_OPEN = 50;

export class OpenDocuments {
  readonly #rpc: MessageConnection;
  readonly #kind: ServerKind;
  /** In the order of their last use. */
  readonly #open = new Map<string, { version: number; text: string }>();

  constructor(rpc: MessageConnection, kind: ServerKind) {
    this.#rpc = rpc;
    this.#kind = kind;
  }

  versionOf(file: string): number {
    return this.#open.get(file)?.version ?? 0;
  }

  /** Opens the file, and gives the server what changed in it and in the others. Returns its text. */
  async show(file: string): Promise<string> {
    for (const other of [...this.#open.keys()])
      if (other !== file) await this.#update(other).catch(() => this.#close(other));
    const text = await this.#update(file);
    for (const oldest of [...this.#open.keys()]) {
      if (this.#open.size <= MAX_OPEN) break;
      await this.#close(oldest);
    }
    return text;
  }

  async #update(file: string): Promise<string> {
    const text = await readFile(file, "utf8");
    const known = this.#open.get(file);
    const uri = pathToFileURL(file).href;
    if (known === undefined) {
      const languageId = this.#kind.languages[extname(file)] ?? "plaintext";
      await this.#rpc.sendNotification("textDocument/didOpen", {
        textDocument: { uri, languageId, version: 1, text },
      });
    } else if (known.text !== text) {
      await this.#rpc.sendNotification("textDocument/didChange", {
        textDocument: { uri, version: known.version + 1 },
        contentChanges: [{ text }],
      });
    }
    const version = known === undefined ? 1 : known.version + (known.text === text ? 0 : 1);
    this.#open.delete(file);
    this.#open.set(file, { version, text });
    return text;
  }

  async #close(file: string): Promise<void> {
    this.#open.delete(file);
    const textDocument = { uri: pathToFileURL(file).href };
    await this.#rpc.sendNotification("textDocument/didClose", { textDocument });
  }
}
