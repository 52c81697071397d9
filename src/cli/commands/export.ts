/** `rnix export`: writes a run as one HTML file. */

import { createWriteStream, existsSync, mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Target } from "../../protocol/methods.ts";
import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { text } from "../flags.ts";
import type { Io, Wire } from "../io.ts";
import { RUN_ARGUMENT, withRun } from "../processes/target.ts";

export default defineCommand({
  about: "Write a run as one HTML file that you can pass on",
  args: [RUN_ARGUMENT],
  flags: {
    html: text("the file; it must not exist yet. - prints the page, as in a pipe", "FILE", { file: "write" }),
  },
  examples: { "rnix export 3 --html run.html": "its steps, verdict, checks and changes in files" },
  notes: [
    "What has the form of a key, a token or a password is redacted. The file loads nothing, and has no script.",
  ],
  run(io, { html }, [run]) {
    if (html === undefined && io.stdout.isTTY) throw usageError("--html: expected a file to write, got none");
    if (html === undefined || html === "-") return withRun(io, run, (wire, of) => print(io, wire, of));
    const file = resolve(io.cwd, html);
    if (existsSync(file)) throw usageError(`--html: ${html} exists already; remove it or name another file`);
    return withRun(io, run, async (wire, of) => {
      const first = await wire.request("export_html", of);
      mkdirSync(dirname(file), { recursive: true });
      const out = createWriteStream(file, { flags: "wx", mode: 0o600 });
      await pipeline(Readable.from(pages(wire, of, first)), out);
      io.stderr.write(`${html}\n`);
      return EXIT.ok;
    });
  },
});

async function print(io: Io, wire: Wire, of: Target): Promise<number> {
  for await (const html of pages(wire, of, await wire.request("export_html", of))) {
    io.stdout.write(html);
    await io.stdout.drained();
  }
  return EXIT.ok;
}

type Page = Answers["export_html"];

async function* pages(wire: Wire, of: Target, first: Page): AsyncGenerator<string> {
  for (let page: Page | null = first; page !== null; ) {
    yield page.html;
    const { next }: Page = page;
    page = next === null ? null : await wire.request("export_html", { ...of, after: next });
  }
}
