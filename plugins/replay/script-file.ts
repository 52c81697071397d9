/** Reads the file of a script. */

import { constants, type Stats } from "node:fs";
import { open, stat } from "node:fs/promises";
import { extname } from "node:path";
import { SyscallError } from "rnix/plugin";
import type { z } from "zod";
import { isObject } from "../_lib/json.ts";
import {
  HEAD_KEYS,
  Head,
  RecordedStep,
  type Response,
  type Script,
  ScriptFile,
  ScriptItem,
} from "./script.ts";

/**
 * Reads a script: YAML or JSON with `responses: […]`, or JSONL with one response in each line. A line may also be a
 * step of a recorded run's `steps.jsonl`. Errors name the file and the line.
 */
export async function readScript(file: string, signal: AbortSignal): Promise<Script> {
  const text = await contentOf(file, signal);
  switch (extname(file)) {
    case ".yaml":
    case ".yml":
      return await fromYaml(file, text);
    case ".json":
      return scriptFrom(file, fromJson(file, text));
    case ".jsonl":
    case ".ndjson":
      return lines(file, text);
    default: {
      const message = `the replay driver's model is a script file that ends in .yaml, .yml, .json or .jsonl, or the UUID of a run, not ${file}`;
      throw new SyscallError("INVALID", message, { retryable: false });
    }
  }
}

const OPEN_SCRIPT = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
const MAX_BYTES = 16 * 1024 * 1024;

async function contentOf(file: string, signal: AbortSignal): Promise<string> {
  try {
    // Opening a device may trigger it; opening a pipe blocks one of the few threads that read files.
    requireScript(file, await stat(file));
    await using handle = await open(file, OPEN_SCRIPT);
    requireScript(file, await handle.stat());
    return await handle.readFile({ encoding: "utf8", signal });
  } catch (error) {
    if (error instanceof SyscallError) throw error;
    if (signal.aborted)
      throw new SyscallError("CANCELLED", "reading the script was cancelled", { cause: error });
    const missing = error instanceof Error && "code" in error && error.code === "ENOENT";
    const message = missing
      ? `there is no script ${file}`
      : `the script ${file} cannot be read: ${String(error)}`;
    throw new SyscallError(missing ? "NOT_FOUND" : "DRIVER", message, { cause: error, retryable: false });
  }
}

function requireScript(file: string, found: Stats): void {
  if (!found.isFile()) throw wrong(file, "it is a folder, a device or a pipe, not a file");
  if (found.size > MAX_BYTES)
    throw wrong(file, `it has ${found.size} bytes; a script has at most ${MAX_BYTES}`);
}

type Path = readonly PropertyKey[];

async function fromYaml(file: string, text: string): Promise<Script> {
  const { isNode, LineCounter, parseDocument } = await import("yaml");
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { prettyErrors: true, lineCounter });
  const [error] = document.errors;
  if (error !== undefined) {
    const [at] = error.linePos ?? [];
    throw wrong(at === undefined ? file : `${file}:${at.line}:${at.col}`, error.message, error);
  }
  // The innermost part that exists in the file: a missing field has no position.
  const positionOf = (path: Path): string => {
    for (let length = path.length; length > 0; length--) {
      const node = document.getIn(path.slice(0, length), true);
      if (!isNode(node) || !node.range) continue;
      const { line, col } = lineCounter.linePos(node.range[0]);
      return `${file}:${line}:${col}`;
    }
    return file;
  };
  return scriptFrom(
    file,
    safely(file, () => document.toJS()),
    positionOf,
  );
}

function fromJson(where: string, text: string): unknown {
  return safely(where, () => JSON.parse(text));
}

function scriptFrom(file: string, content: unknown, positionOf: (path: Path) => string = () => file): Script {
  return { ...checked(ScriptFile, positionOf, content, file), name: file };
}

function lines(file: string, text: string): Script {
  const script: Script = { name: file, responses: [] };
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const where = `${file}:${index + 1}`;
    const content = fromJson(where, line);
    const first = script.responses.length === 0 && isObject(content);
    if (first && Object.keys(content).some((key) => HEAD_KEYS.includes(key))) {
      Object.assign(
        script,
        checked(Head, () => where, content, where),
      );
    } else script.responses.push(...fromLine(where, content));
  }
  return script;
}

function fromLine(where: string, content: unknown): ScriptItem[] {
  const step = RecordedStep.safeParse(content);
  return step.success ? recorded(step.data) : [checked(ScriptItem, () => where, content, where)];
}

function recorded({ messages, usage, stop_reason, stop_word }: RecordedStep): Response[] {
  return messages
    .filter((message) => message.role === "assistant")
    .map(({ content, tool_calls }) => ({
      text: content,
      ...(tool_calls ? { tool_calls } : {}),
      usage,
      stop_reason,
      stop_word,
    }));
}

function checked<T>(
  schema: z.ZodType<T>,
  positionOf: (path: Path) => string,
  content: unknown,
  file: string,
): T {
  const result = safely(file, () => schema.safeParse(content));
  if (result.success) return result.data;
  throw explained(result.error, positionOf);
}

/** Runs code that overflows on thousands of levels, or on aliases of aliases, with an error that names the file. */
function safely<T>(where: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw wrong(where, String(error), error);
  }
}

function explained(error: z.ZodError, positionOf: (path: Path) => string): SyscallError {
  const [issue] = error.issues;
  if (issue === undefined) return wrong(positionOf([]), "it is not a script", error);
  const key = issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [];
  const field = issue.path.map(String).join(".");
  return wrong(
    positionOf([...issue.path, ...key]),
    `${field === "" ? "" : `${field}: `}${issue.message}`,
    error,
  );
}

function wrong(where: string, why: string, cause?: unknown): SyscallError {
  return new SyscallError("INVALID", `the script ${where}: ${why}`, { cause, retryable: false });
}
