import { readFile, stat } from "node:fs/promises";
import { extname } from "node:path";
import { SyscallError } from "rnix/plugin";
import { z } from "zod";

/** One answer of the scripted model. */
export type Response = z.infer<typeof Response>;

/**
 * A script from its file: YAML or JSON with `responses: […]`, or JSONL with one response a line. A line of
 * a recorded run's `steps.jsonl` is the answer that the step recorded. Errors name the file and the line.
 */
export async function readScript(file: string, signal: AbortSignal): Promise<Response[]> {
  const text = await contentOf(file, signal);
  switch (extname(file)) {
    case ".yaml":
    case ".yml":
      return listed(file, await fromYaml(file, text));
    case ".json":
      return listed(file, fromJson(file, text));
    case ".jsonl":
    case ".ndjson":
      return lines(file, text);
    default:
      throw new SyscallError(
        "INVALID",
        `the replay driver's model is a script file that ends in .yaml, .yml, .json or .jsonl, not ${file}`,
        { retryable: false },
      );
  }
}

const LARGEST = 16 * 1024 * 1024;

const Response = z.strictObject({
  text: z.string().optional(),
  tool_calls: z
    .array(
      z.strictObject({
        id: z.string().min(1).optional(),
        name: z.string().min(1),
        input: z.record(z.string(), z.unknown()).default({}),
      }),
    )
    .optional(),
  usage: z
    .strictObject({
      input_tokens: z.number().int().nonnegative().optional(),
      output_tokens: z.number().int().nonnegative().optional(),
      cached_tokens: z.number().int().nonnegative().optional(),
    })
    .optional(),
  stop_reason: z.enum(["end_turn", "tool_calls", "max_tokens", "refusal"]).optional(),
});

const Script = z.strictObject({ responses: z.array(Response) });

/** What of a step record is played again: what the model said, and what it used. */
const Step = z.object({
  step: z.number(),
  messages: z.array(
    z.object({
      role: z.string(),
      content: z.string(),
      tool_calls: z
        .array(z.object({ id: z.string(), name: z.string(), input: z.record(z.string(), z.unknown()) }))
        .optional(),
    }),
  ),
  usage: z.object({ input_tokens: z.number(), output_tokens: z.number(), cached_tokens: z.number() }),
});

async function contentOf(file: string, signal: AbortSignal): Promise<string> {
  try {
    const { size } = await stat(file);
    if (size > LARGEST) throw wrong(file, `it has ${size} bytes; a script has at most ${LARGEST}`);
    return await readFile(file, { encoding: "utf8", signal });
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

async function fromYaml(file: string, text: string): Promise<unknown> {
  const { parseDocument } = await import("yaml");
  const document = parseDocument(text, { prettyErrors: true });
  const [error] = document.errors;
  if (error === undefined) return document.toJS();
  const [at] = error.linePos ?? [];
  throw wrong(at === undefined ? file : `${file}:${at.line}:${at.col}`, error.message, error);
}

function fromJson(where: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw wrong(where, String(error), error);
  }
}

function listed(file: string, content: unknown): Response[] {
  const result = Script.safeParse(content);
  if (result.success) return result.data.responses;
  throw wrong(file, z.prettifyError(result.error), result.error);
}

function lines(file: string, text: string): Response[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    const where = `${file}:${index + 1}`;
    return fromLine(where, fromJson(where, line));
  });
}

function fromLine(where: string, content: unknown): Response[] {
  const step = Step.safeParse(content);
  if (step.success) return recorded(step.data);
  const response = Response.safeParse(content);
  if (response.success) return [response.data];
  throw wrong(where, z.prettifyError(response.error), response.error);
}

function recorded({ messages, usage }: z.infer<typeof Step>): Response[] {
  return messages
    .filter((message) => message.role === "assistant")
    .map(({ content, tool_calls }) => ({ text: content, ...(tool_calls ? { tool_calls } : {}), usage }));
}

function wrong(where: string, why: string, cause?: unknown): SyscallError {
  return new SyscallError("INVALID", `the script ${where}: ${why}`, { cause, retryable: false });
}
