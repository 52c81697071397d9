/** The devices that change memory: /dev/memory/commit and /dev/memory/profile. */

import { type FromSchema, type OpenContext, SyscallError } from "rnix/plugin";
import type { Answers } from "../_lib/answer-file.ts";
import { checkedInput } from "../_lib/checked-input.ts";
import { jsonObject } from "../_lib/json.ts";
import { type Change, Memory, newestThatFit } from "./memory.ts";
import { type MemoryScope, SCOPES, TARGETS, type Target } from "./scopes.ts";
import { changeText, scopeDocument, scopeText } from "./texts.ts";

/** What a tool or a command of a person writes. */
const REQUEST = {
  type: "object",
  properties: {
    action: { type: "string", enum: ["add", "replace", "remove", "snapshot", "capacity", "show"] },
    target: { type: "string", enum: TARGETS },
    global: { type: "boolean" },
    profile: { type: "boolean" },
    content: { type: "string" },
    old: { type: "string" },
    new: { type: "string" },
    as: { type: "string" },
  },
  required: ["action"],
} as const;
type Request = FromSchema<typeof REQUEST>;

export const COMMIT = "/dev/memory/commit";
export const PROFILE = "/dev/memory/profile";

/** `target`: the only scope of the device, or undefined where the request names one. */
export function changes(device: string, target: Target | undefined, context: OpenContext): Answers {
  const all = (target === undefined ? TARGETS : [target]).map((one) => SCOPES[one]);
  return {
    device,
    content: (signal) => textOf(new Memory(context, signal), all),
    async answer(text, signal) {
      const memory = new Memory(context, signal);
      const request = checkedInput({ name: device, input: REQUEST }, jsonObject(device, text));
      const { action } = request;
      const isText = request.as === "text";
      const named = scopeNamed(request, context, target);
      // The command `rnix memory show`.
      if (action === "show") {
        const scopes = named ? [named] : all;
        return isText ? textOf(memory, scopes) : jsonOf(memory, scopes);
      }
      const scope = named ?? SCOPES[target ?? "memory"];
      if (action === "snapshot" || action === "capacity")
        return JSON.stringify(await documentOf(memory, scope, action === "snapshot"), null, 1);
      const change = await changed(memory, scope, action, request);
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
): Promise<Change> {
  const { content, old = content, new: replacement = content } = request;
  if (action === "add") return memory.add(scope, needed("content", content, "the text to remember"));
  const entry = needed("old", old, "the id of an entry, its text or a part of it");
  if (action === "remove") return memory.remove(scope, entry);
  return memory.replace(scope, entry, needed("new", replacement, "the new text"));
}

function needed(name: string, text: string | undefined, what: string): string {
  if (text !== undefined && text.trim() !== "") return text;
  throw new SyscallError("INVALID", `${name} is missing: ${what}.`);
}

/** undefined: the request names none. The commands of a person name the others by flags. */
function scopeNamed(
  { global, profile, target }: Request,
  { process }: OpenContext,
  only: Target | undefined,
): MemoryScope | undefined {
  if (only !== undefined) return SCOPES[only];
  if (global) return SCOPES.global_memory;
  const named = profile ? "profile" : target;
  if (named === "profile" && !process.operator) {
    const message = `${COMMIT}: a run changes the profile by ${PROFILE} (MemoryProfile).`;
    throw new SyscallError("PERMISSION", message);
  }
  return named && SCOPES[named];
}

async function textOf(memory: Memory, scopes: readonly MemoryScope[]): Promise<string> {
  const parts: string[] = [];
  for (const scope of scopes) parts.push(scopeText(await memory.read(scope), await memory.pathOf(scope)));
  return parts.join("\n\n");
}

/** All entries of these scopes, each with its file. */
async function jsonOf(memory: Memory, scopes: readonly MemoryScope[]): Promise<string> {
  const documents: object[] = [];
  for (const scope of scopes)
    documents.push({ ...(await documentOf(memory, scope, true)), file: await memory.pathOf(scope) });
  return JSON.stringify(documents, null, 1);
}

async function documentOf(memory: Memory, scope: MemoryScope, withEntries: boolean): Promise<object> {
  const content = await memory.read(scope);
  const inPrompt = newestThatFit(content.used, scope.inPrompt(memory.limits));
  return scopeDocument(content, inPrompt.length, withEntries);
}
