import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { ChecklistItem, OpenContext } from "../../../src/plugin/index.ts";

/** Characters of output that are kept. */
const OUTPUT_KEPT = 64 * 1024;

/** What a driver reported to its process through the context, in order. */
export interface Notes {
  progress: string[];
  /** The end of it. */
  output: string;
  changed: string[];
  log: string[];
  spilled: string[];
  inbox: string[];
  checklist: ChecklistItem[];
}

/**
 * The context of a process in `dir`, whose notes a test can read. Services are what the caller hands in:
 * a plugin that needs `exec` is given one, as the kernel would.
 */
export function testContext(
  dir: string,
  more: Partial<OpenContext> = {},
): { context: OpenContext; notes: Notes } {
  const notes: Notes = {
    progress: [],
    output: "",
    changed: [],
    log: [],
    spilled: [],
    inbox: [],
    checklist: [],
  };
  const context: OpenContext = {
    process: {
      pid: 1,
      uuid: "test-process",
      tree: "test-process",
      agent: "test",
      depth: 0,
      attended: false,
      operator: false,
    },
    project: { id: "test-project", dir, trusted: true },
    cwd: dir,
    folders: [],
    guarded: [],
    env: { PATH: process.env.PATH ?? "", HOME: dir },
    config: undefined,
    progress: (text) => void notes.progress.push(text),
    checklist: (items) => {
      notes.checklist = [...items];
    },
    output: (text) => {
      notes.output = (notes.output + text).slice(-OUTPUT_KEPT);
    },
    changing: async () => {},
    changed: (file) => void notes.changed.push(file),
    log: (level, text) => void notes.log.push(`${level}: ${text}`),
    spill: async (name, data) => {
      const path = join(dir, ".spill", name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, data);
      notes.spilled.push(path);
      return path;
    },
    inbox: async (text) => void notes.inbox.push(text),
    access: async (paths) => paths.map(() => null),
    connect: async () => null,
    ...more,
  };
  return { context, notes };
}
