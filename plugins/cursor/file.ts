/** Finds the Cursor CLI and opens it as the device /dev/llm/cursor. */

import { type LLMRequest, type OpenContext, SyscallError } from "rnix/plugin";
import { CliFile, commandOf } from "../_model/cli-file.ts";
import { findProgram, isFile } from "../_model/cli-program.ts";
import { CliRun, type Program } from "../_model/cli-run.ts";
import { promptOf } from "../_model/conversation.ts";
import type { ModelFacts } from "../_model/model-file.ts";
import { keyOf } from "../_model/settings.ts";
import { Stream } from "./stream.ts";

const FACTS: ModelFacts = {
  name: "cursor",
  devicePath: "/dev/llm/cursor",
  models: ["auto"],
  can: { runs_tools: true, confined: false },
};

/** The prompt is one argument, which the system limits to 128 KiB with its end. */
const MAX_PROMPT_BYTES = 128 * 1024 - 1;
/** Tools that change files. A process with one of them lets the program change files too. */
const CHANGING = new Set(["Write", "Edit", "Bash"]);

/** Opens /dev/llm/cursor. Fails with UNAVAILABLE if the program is missing, before a run starts. */
export function cursorFile(context: OpenContext): CliFile {
  const command = commandOf(context);
  locate(context, command);
  return new CliFile(FACTS, async (request, signal) => {
    const path = locate(context, command);
    const key = await keyOf(context, { required: true });
    const run = new CliRun(context, signal, new Stream((text) => context.progress(text)), () => undefined);
    return { events: await run.start(program(path, request, key)), end: () => run.end() };
  });
}

function locate({ env }: OpenContext, command: string | undefined): string {
  const path = command ?? findBinary(env);
  if (path !== undefined && isFile(path)) return path;
  throw notFound();
}

/** Finds the program on the PATH by either of its names, then where its installer puts it. */
export function findBinary(env: Readonly<Record<string, string | undefined>>): string | undefined {
  return findProgram(env, ["cursor-agent", "agent"], [".local/bin/cursor-agent", ".local/bin/agent"]);
}

function program(path: string, request: LLMRequest, key: string): Program {
  // A project's text in the instructions must not end them.
  const instructions = request.system_prompt.replace(/\[(?=\s*(?:end of )?system instructions)/gi, "(");
  const prompt = `[System Instructions]\n${instructions}\n[End of System Instructions]\n\n${promptOf(request)}`;
  if (Buffer.byteLength(prompt) > MAX_PROMPT_BYTES) throw tooLong(prompt);
  const changes = request.tools?.some(({ name }) => CHANGING.has(name)) === true;
  return {
    argv: [
      path,
      ...["--print", "--output-format", "stream-json"],
      ...["--model", request.model],
      // Without this flag the program changes no file.
      ...(changes ? ["--force"] : []),
      prompt,
    ],
    env: { CURSOR_API_KEY: key },
  };
}

function tooLong(prompt: string): SyscallError {
  const message = `The Cursor CLI takes a prompt of at most ${MAX_PROMPT_BYTES} bytes; the conversation has ${Buffer.byteLength(prompt)}`;
  return new SyscallError("INVALID", message, { retryable: false, tooLong: true });
}

function notFound(): SyscallError {
  const message =
    "The program `cursor-agent` (or `agent`) is neither on the PATH nor in ~/.local/bin. Install the Cursor CLI, or name it as extra.command in the provider's entry";
  return new SyscallError("UNAVAILABLE", message, { retryable: false });
}
