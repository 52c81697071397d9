/** The definitions of the file tools: Read, Write, Edit, Glob and Grep. */

import type { FromSchema, ToolDef } from "rnix/plugin";

/**
 * The tools as the model sees them. Every request carries this text, so hints for a mistake are in the error message, and
 * the prompt's head says that paths are relative to the working folder.
 */

export const READ = {
  name: "Read",
  op: "read",
  subject: "path",
  proc: true,
  description: "Read a text file. Each line has its number and a tab in front, not part of the file.",
  input: {
    type: "object",
    properties: {
      path: { type: "string", minLength: 1 },
      offset: { type: "integer", minimum: 1, description: "First line, from 1." },
      limit: { type: "integer", minimum: 1, maximum: 10_000, description: "Lines, default 2000." },
    },
    required: ["path"],
    additionalProperties: false,
  },
  // The driver itself ends an answer at about 100,000 characters and names the offset to continue with.
  maxResult: 110_000,
  annotations: { readOnlyHint: true, idempotentHint: true },
} as const satisfies ToolDef;

export const WRITE = {
  name: "Write",
  op: "write",
  subject: "path",
  description: "Create a file, with its folders, or replace all of it.",
  input: {
    type: "object",
    properties: { path: { type: "string", minLength: 1 }, content: { type: "string" } },
    required: ["path", "content"],
    additionalProperties: false,
  },
  annotations: { destructiveHint: true, idempotentHint: true },
} as const satisfies ToolDef;

export const EDIT = {
  name: "Edit",
  op: "edit",
  subject: "path",
  description:
    "Replace text in a file. `old_string` must be the exact text, without the line numbers of Read, and occur once unless `replace_all` is set.",
  input: {
    type: "object",
    properties: {
      path: { type: "string", minLength: 1 },
      old_string: { type: "string" },
      new_string: { type: "string" },
      replace_all: { type: "boolean" },
    },
    required: ["path", "old_string", "new_string"],
    additionalProperties: false,
  },
  annotations: { destructiveHint: true },
} as const satisfies ToolDef;

export const GLOB = {
  name: "Glob",
  op: "glob",
  subject: "path",
  filters: true,
  description:
    "Find files by a name pattern such as `src/**/*.{js,ts}`, newest first. Skips .git, node_modules and .rnix unless named.",
  input: {
    type: "object",
    properties: {
      pattern: { type: "string", minLength: 1 },
      path: { type: "string", minLength: 1 },
      limit: { type: "integer", minimum: 1, maximum: 1_000, description: "Default 100." },
    },
    required: ["pattern"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true },
} as const satisfies ToolDef;

export const GREP = {
  name: "Grep",
  op: "grep",
  subject: "path",
  filters: true,
  description:
    "Search the lines of files with a regular expression (RE2 syntax). Skips what Glob skips, and binary files.",
  input: {
    type: "object",
    properties: {
      pattern: { type: "string", minLength: 1 },
      path: { type: "string", minLength: 1 },
      glob: { type: "string", minLength: 1, description: "Such as `*.ts` or `src/**`." },
      output_mode: { type: "string", enum: ["files_with_matches", "content", "count"] },
      case_insensitive: { type: "boolean" },
      context: { type: "integer", minimum: 0, maximum: 50, description: "Lines around each match." },
      head_limit: {
        type: "integer",
        minimum: 1,
        maximum: 5_000,
        description: "Default 250 lines or 100 files.",
      },
    },
    required: ["pattern"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true },
} as const satisfies ToolDef;

export type ReadInput = FromSchema<typeof READ.input>;
export type WriteInput = FromSchema<typeof WRITE.input>;
export type EditInput = FromSchema<typeof EDIT.input>;
export type GlobInput = FromSchema<typeof GLOB.input>;
export type GrepInput = FromSchema<typeof GREP.input>;
