import type { ToolDef } from "rnix/plugin";

/** What the model is told. `inputs.ts` holds the same fields for the driver; a test compares the two. */

const PATH = "Absolute, or relative to the working folder.";

export const READ: ToolDef = {
  name: "Read",
  op: "read",
  subject: "path",
  description:
    "Read a text file of the project. Each line comes with its number and a tab in front, which are not part of the file. Without `offset` and `limit` the first 2000 lines are shown; the end of the answer says how to go on when there are more. Lines over 2000 characters are cut. Read a file before you edit it.",
  input: {
    type: "object",
    properties: {
      path: { type: "string", minLength: 1, description: `The file. ${PATH}` },
      offset: { type: "integer", minimum: 1, description: "First line to show, counted from 1." },
      limit: { type: "integer", minimum: 1, maximum: 10000, description: "How many lines. Default 2000." },
    },
    required: ["path"],
    additionalProperties: false,
  },
  // The driver itself ends an answer at about 100,000 characters and says with which offset to go on.
  maxResult: 110_000,
  annotations: { readOnlyHint: true, idempotentHint: true },
};

export const WRITE: ToolDef = {
  name: "Write",
  op: "write",
  subject: "path",
  description:
    "Create a file, or replace an existing one whole. Missing folders are made. To change a part of a file use Edit.",
  input: {
    type: "object",
    properties: {
      path: { type: "string", minLength: 1, description: `The file. ${PATH}` },
      content: { type: "string", description: "The whole new content." },
    },
    required: ["path", "content"],
    additionalProperties: false,
  },
  annotations: { destructiveHint: true, idempotentHint: true },
};

export const EDIT: ToolDef = {
  name: "Edit",
  op: "edit",
  subject: "path",
  description:
    "Replace an exact text in a file. `old_string` must occur exactly once, so give enough of the lines around it, or set `replace_all`. Copy it from Read without the line numbers, with the same indentation. An empty `old_string` creates a new file with `new_string` as its content.",
  input: {
    type: "object",
    properties: {
      path: { type: "string", minLength: 1, description: `The file. ${PATH}` },
      old_string: { type: "string", description: "The text to be replaced, exactly as it is in the file." },
      new_string: { type: "string", description: "The text to put there instead." },
      replace_all: { type: "boolean", description: "Replace every occurrence. Default false." },
    },
    required: ["path", "old_string", "new_string"],
    additionalProperties: false,
  },
  annotations: { destructiveHint: true },
};

export const GLOB: ToolDef = {
  name: "Glob",
  op: "glob",
  subject: "path",
  description:
    "Find files by name, newest first. `*` stays within one folder, `**` goes through folders: `**/*.ts`, `src/**/*.{js,jsx}`. .git, node_modules and .rnix are left out unless `path` or the start of the pattern names them.",
  input: {
    type: "object",
    properties: {
      pattern: { type: "string", minLength: 1, description: "The glob pattern, relative to `path`." },
      path: {
        type: "string",
        minLength: 1,
        description: `Folder to search in. ${PATH} Default: the working folder.`,
      },
      limit: {
        type: "integer",
        minimum: 1,
        maximum: 1000,
        description: "How many names at most. Default 100.",
      },
    },
    required: ["pattern"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true },
};

export const GREP: ToolDef = {
  name: "Grep",
  op: "grep",
  subject: "path",
  description:
    "Search the lines of files with a regular expression (JavaScript syntax without look-around and back-references; escape literal `(`, `[`, `.`). Shows the names of matching files unless `output_mode` says otherwise. Binary files, files over 50 MB, .git, node_modules and .rnix are left out.",
  input: {
    type: "object",
    properties: {
      pattern: { type: "string", minLength: 1, description: "The regular expression. Matched line by line." },
      path: {
        type: "string",
        minLength: 1,
        description: `File or folder to search in. ${PATH} Default: the working folder.`,
      },
      glob: {
        type: "string",
        minLength: 1,
        description: "Only files with such a name, `*.ts`, or with such a path, `src/**/*.ts`.",
      },
      output_mode: {
        type: "string",
        enum: ["files_with_matches", "content", "count"],
        description:
          "Names of files (default), the matching lines, or the number of matching lines per file.",
      },
      case_insensitive: { type: "boolean", description: "Ignore upper and lower case. Default false." },
      context: {
        type: "integer",
        minimum: 0,
        maximum: 50,
        description: "With `content`: lines to show before and after each match. Default 0.",
      },
      head_limit: {
        type: "integer",
        minimum: 1,
        maximum: 5000,
        description: "Stop after so many lines (`content`, default 250) or files (default 100).",
      },
    },
    required: ["pattern"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true },
};
