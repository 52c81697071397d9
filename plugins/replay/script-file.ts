import { constants, type Stats } from "node:fs";
import { open, stat } from "node:fs/promises";
import { extname } from "node:path";
import { SyscallError } from "rnix/plugin";
import type { z } from "zod";
import { isObject } from "../_lib/is-object.ts";
import { RecordedStep } from "./recorded-step.ts";
import { Entry, HEAD_KEYS, Head, type Response, type Script, ScriptFile } from "./script.ts";

/**
 * A script from its file: YAML or JSON with `responses: […]`, or JSONL with one response a line. A line of
 * a recorded run's `steps.jsonl` is the answer that the step recorded. Errors name the file and the line.
 */
export async function readScript(file: string, signal: AbortSignal): Promise<Script> {
  const text = await contentOf(file, signal);
  switch (extname(file)) {
    case ".yaml":
    case ".yml":
      return await fromYaml(file, text);
    case ".json":
      return whole(file, fromJson(file, text));
    case ".jsonl":
    case ".ndjson":
      return lines(file, text);
    default:
      throw new SyscallError(
        "INVALID",
        `the replay driver's model is a script file that ends in .yaml, .yml, .json or .jsonl, or the UUID of a run, not ${file}`,
        { retryable: false },
      );
  }
}

const OPEN_SCRIPT = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;
const LARGEST = 16 * 1024 * 1024;

async function contentOf(file: string, signal: AbortSignal): Promise<string> {
  try {
    // Opening a device can act on it; opening a pipe blocks one of the few threads that read all files.
    requireScript(file, await stat(file));
    await using handle = await open(file, OPEN_SCRIPT);
    requireScript(file, await handle.stat());
    return await handle.readFile({ encoding: "utf8", signal });
  } catch (error) {
    if (error instanceof SyscallError) throw error;
    if (signal.aborted)
      throw new SyscallError("CANCELLED", "the script was no longer wanted", { cause: error });
    const missing = error instanceof Error && "code" in error && error.code === "ENOENT";
    const message = missing
      ? `there is no script ${file}`
      : `the script ${file} cannot be read: ${String(error)}`;
    throw new SyscallError(missing ? "NOT_FOUND" : "DRIVER", message, { cause: error, retryable: false });
  }
}

function requireScript(file: string, found: Stats): void {
  if (!found.isFile()) throw wrong(file, "it is no file but a folder, a device or a pipe");
  if (found.size > LARGEST) throw wrong(file, `it has ${found.size} bytes; a script has at most ${LARGEST}`);
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
  // The nearest part that stands in the file: what is missing has no place of its own.
  const place = (path: Path): string => {
    for (let length = path.length; length > 0; length--) {
      const node = document.getIn(path.slice(0, length), true);
      if (!isNode(node) || !node.range) continue;
      const { line, col } = lineCounter.linePos(node.range[0]);
      return `${file}:${line}:${col}`;
    }
    return file;
  };
  return whole(
    file,
    safely(file, () => document.toJS()),
    place,
  );
}

function fromJson(where: string, text: string): unknown {
  return safely(where, () => JSON.parse(text));
}

function whole(file: string, content: unknown, place: (path: Path) => string = () => file): Script {
  return { ...checked(ScriptFile, place, content, file), name: file };
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

function fromLine(where: string, content: unknown): Entry[] {
  const step = RecordedStep.safeParse(content);
  return step.success ? recorded(step.data) : [checked(Entry, () => where, content, where)];
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

function checked<T>(schema: z.ZodType<T>, place: (path: Path) => string, content: unknown, whole: string): T {
  const result = safely(whole, () => schema.safeParse(content));
  if (result.success) return result.data;
  throw explained(result.error, place);
}

/** What is nested thousands of levels deep, or has aliases of aliases, is more than can be looked at. */
function safely<T>(where: string, look: () => T): T {
  try {
    return look();
  } catch (error) {
    throw wrong(where, String(error), error);
  }
}

/** The first fault, where it stands. */
function explained(error: z.ZodError, place: (path: Path) => string): SyscallError {
  const [issue] = error.issues;
  if (issue === undefined) return wrong(place([]), "it is no script", error);
  const key = issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [];
  const field = issue.path.map(String).join(".");
  return wrong(place([...issue.path, ...key]), `${field === "" ? "" : `${field}: `}${issue.message}`, error);
}

function wrong(where: string, why: string, cause?: unknown): SyscallError {
  return new SyscallError("INVALID", `the script ${where}: ${why}`, { cause, retryable: false });
}
