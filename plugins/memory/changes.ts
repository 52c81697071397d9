/** The devices that change memory: /dev/memory/commit and /dev/memory/profile. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import type { Answers } from "../_lib/answer-file.ts";
import { type Change, Memory } from "./memory.ts";
import { newestThatFit } from "./prompt-part.ts";
import { Request } from "./request.ts";
import { type MemoryScope, SCOPES, TARGETS, type Target } from "./scopes.ts";
import { changeText, scopeDocument, scopeText } from "./texts.ts";

const ACTIONS = ["add", "replace", "remove", "snapshot", "capacity"] as const;

export const COMMIT = "/dev/memory/commit";
export const PROFILE = "/dev/memory/profile";

/** `target`: the only scope of the device, or undefined where the request names one. */
export function changes(device: string, target: Target | undefined, context: OpenContext): Answers {
  const memory = new Memory(context);
  const all = (target === undefined ? TARGETS : [target]).map((one) => SCOPES[one]);
  return {
    device,
    content: (signal) => textOf(memory, all, signal),
    async answer(text, signal) {
      const request = new Request(device, text);
      const isText = request.text("as") === "text";
      // The command `rnix memory show`.
      if (request.text("action") === "show") {
        const named = scopeNamed(request, context, target);
        const scopes = named ? [named] : all;
        return isText ? textOf(memory, scopes, signal) : jsonOf(memory, scopes, signal);
      }
      const action = request.oneOf("action", ACTIONS);
      const scope = scopeNamed(request, context, target) ?? SCOPES[target ?? "memory"];
      if (action === "snapshot" || action === "capacity") {
        return JSON.stringify(await documentOf(memory, scope, action === "snapshot", signal), null, 1);
      }
      const change = await changed(memory, scope, action, request, signal);
      const message = changeText(scope, change);
      // One line that begins with the message: it is what a user sees of the call.
      return isText ? message : JSON.stringify({ message, ...change, target: scope.target });
    },
  };
}

async function changed(
  memory: Memory,
  scope: MemoryScope,
  action: "add" | "replace" | "remove",
  request: Request,
  signal: AbortSignal,
): Promise<Change> {
  if (action === "add") return memory.add(scope, request.needed("content", "the text to remember"), signal);
  const old = request.text("old") ?? request.text("content");
  if (old === undefined || old.trim() === "") {
    throw new SyscallError(
      "INVALID",
      `${action}: old is missing: the id of an entry, its text or a part of it.`,
    );
  }
  if (action === "remove") return memory.remove(scope, old, signal);
  return memory.replace(scope, old, request.text("new") ?? request.needed("content", "the new text"), signal);
}

/** undefined: the request names none. The commands of a person name the others by flags. */
function scopeNamed(
  request: Request,
  { process }: OpenContext,
  only: Target | undefined,
): MemoryScope | undefined {
  if (only !== undefined) return SCOPES[only];
  if (request.flag("global")) return SCOPES.global_memory;
  const isProfile = request.flag("profile") || request.text("target") === "profile";
  if (isProfile && !process.operator) {
    throw new SyscallError(
      "PERMISSION",
      `${COMMIT}: a run changes the profile by ${PROFILE} (MemoryProfile).`,
    );
  }
  if (isProfile) return SCOPES.profile;
  if (request.text("target") === undefined) return undefined;
  return SCOPES[request.oneOf("target", ["memory", "global_memory"])];
}

async function textOf(memory: Memory, scopes: readonly MemoryScope[], signal: AbortSignal): Promise<string> {
  const parts: string[] = [];
  for (const scope of scopes) {
    parts.push(scopeText(await memory.read(scope, signal), await memory.pathOf(scope)));
  }
  return parts.join("\n\n");
}

/** All entries of these scopes, each with its file. */
async function jsonOf(memory: Memory, scopes: readonly MemoryScope[], signal: AbortSignal): Promise<string> {
  const documents: object[] = [];
  for (const scope of scopes) {
    documents.push({
      ...(await documentOf(memory, scope, true, signal)),
      file: await memory.pathOf(scope),
    });
  }
  return JSON.stringify(documents, null, 1);
}

async function documentOf(
  memory: Memory,
  scope: MemoryScope,
  withEntries: boolean,
  signal: AbortSignal,
): Promise<object> {
  const content = await memory.read(scope, signal);
  const inPrompt = newestThatFit(content.used, scope.inPrompt(memory.limits));
  return scopeDocument(content, inPrompt.length, withEntries);
}
