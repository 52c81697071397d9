/** Reads a file of 200 MB as /dev/fs/<path>, or two lines of it as the tool does, and tells what memory that took. */
import { truncateSync } from "node:fs";
import { O_RDONLY } from "../../../src/plugin/index.ts";
import { measure } from "../../support/measured.ts";
import { Project } from "../fs/project.ts";

const PIECE = 1 << 20;
const never = new AbortController().signal;

using project = new Project();
truncateSync(project.put("big", "a line\n".repeat(20_000)), 200 * 1024 * 1024);

const works: Record<string, () => Promise<string>> = {
  whole: async () => {
    const file = await project.open("/big", O_RDONLY);
    let size = 0;
    for (let piece = await file.read(PIECE, never); piece.length > 0; piece = await file.read(PIECE, never))
      size += piece.length;
    await file.close();
    return String(size);
  },
  window: () => project.run({ op: "read", path: "big", offset: 15_000, limit: 2 }),
};
const work = works[process.argv[2] ?? ""];
if (!work) throw new Error(`expected one of ${Object.keys(works).join(", ")}`);
await measure(work);
