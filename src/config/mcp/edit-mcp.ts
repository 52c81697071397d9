/** Adds servers to an mcp.yaml and removes them, and keeps everything else in the file. */

import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { type ConfigSources, refuseEscape } from "../config-sources.ts";
import { linkTarget, readText, writeAtomic } from "../files/file.ts";
import { FILE, KEY, readMcpFile } from "./mcp.ts";
import type { McpEntry } from "./mcp-entry.ts";

/** The user's file, or the project's. */
export class McpFileEditor {
  readonly path: string;

  constructor({ project, configDir }: Pick<ConfigSources, "project" | "configDir">, of: "user" | "project") {
    this.path = of === "user" ? join(configDir, FILE) : join(project.dir, ".rnix", FILE);
    if (of === "user") return;
    if (project.kind === "none")
      throw new SyscallError("INVALID", `${project.dir} is no project, so it has no servers of its own.`);
    refuseEscape(this.path, project);
  }

  /** Fails with INVALID when the file has a server of this name, and for an entry or a file that is wrong. */
  async add(name: string, entry: Partial<McpEntry>): Promise<void> {
    const { names, document, isMap } = await this.#read();
    if (names.includes(name))
      throw new SyscallError(
        "INVALID",
        `${this.path} has a server ${name}. Take another name, or remove it first: rnix mcp remove ${name}`,
      );
    const servers = document.get(KEY);
    // Into `{}` it would be written as one line.
    if (!isMap(servers) || servers.items.length === 0) document.set(KEY, document.createNode({}));
    document.setIn([KEY, name], document.createNode(entry));
    const written = document.toString({ lineWidth: 0 });
    (await readMcpFile(written, this.path)).find((server) => server.name === name)?.entry();
    this.#write(written);
  }

  /** Returns false when the file has no server of this name. */
  async remove(name: string): Promise<boolean> {
    const { names, document } = await this.#read();
    if (!names.includes(name)) return false;
    document.deleteIn([KEY, name]);
    this.#write(document.toString({ lineWidth: 0 }));
    return true;
  }

  async #read() {
    const text = readText(this.path) ?? "";
    // Mistakes in the file are the user's to mend: nothing is written over them.
    const names = (await readMcpFile(text, this.path)).map(({ name }) => name);
    const { parseDocument, isMap } = await import("yaml");
    return { names, document: parseDocument(text), isMap };
  }

  #write(text: string): void {
    writeAtomic(linkTarget(this.path), text);
  }
}
