/** The devices that change memory: /dev/memory/commit and /dev/memory/profile. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import { type Change, Memory } from "./memory.ts";
import { newestThatFit } from "./prompt-part.ts";
import type { Request } from "./request.ts";
import type { Answers } from "./request-file.ts";
import { PLACES, type Place, TARGETS, type Target } from "./scopes.ts";
import { changeText, notesDocument, notesText } from "./texts.ts";

const ACTIONS = ["add", "replace", "remove", "snapshot", "capacity"] as const;

export const COMMIT = "/dev/memory/commit";
export const PROFILE = "/dev/memory/profile";

/** `target`: the only scope of the device, or undefined where the request names one. */
export function changes(device: string, target: Target | undefined, context: OpenContext): Answers {
  const memory = new Memory(context);
  const shown = async (signal: AbortSignal): Promise<string> =>
    textOf(memory, target === undefined ? TARGETS.map((one) => PLACES[one]) : [PLACES[target]], signal);
  return {
    device,
    shown,
    async answer(request, signal) {
      const isText = request.text("as") === "text";
      // The command `rnix memory show`.
      if (request.text("action") === "show") {
        const named = placeNamed(request, context, target);
        const places = named ? [named] : TARGETS.map((one) => PLACES[one]);
        return isText ? textOf(memory, places, signal) : jsonOf(memory, places, signal);
      }
      const action = request.oneOf("action", ACTIONS);
      const place = placeNamed(request, context, target) ?? PLACES[target ?? "memory"];
      if (action === "snapshot" || action === "capacity") {
        return JSON.stringify(await documentOf(memory, place, action === "snapshot", signal), null, 1);
      }
      const change = await changed(memory, place, action, request, signal);
      const message = changeText(place, change);
      // One line that begins with the message: it is what a user sees of the call.
      return isText ? message : JSON.stringify({ message, ...change, target: place.target });
    },
  };
}

async function changed(
  memory: Memory,
  place: Place,
  action: "add" | "replace" | "remove",
  request: Request,
  signal: AbortSignal,
): Promise<Change> {
  if (action === "add") return memory.add(place, request.needed("content", "the text to remember"), signal);
  const old = request.text("old") ?? request.text("content");
  if (old === undefined || old.trim() === "") {
    throw new SyscallError(
      "INVALID",
      `${action}: old is missing: the id of an entry, its text or a part of it.`,
    );
  }
  if (action === "remove") return memory.remove(place, old, signal);
  return memory.replace(place, old, request.text("new") ?? request.needed("content", "the new text"), signal);
}

/** undefined: the request names none. The commands of a person name the others by flags. */
function placeNamed(request: Request, { process }: OpenContext, only: Target | undefined): Place | undefined {
  if (only !== undefined) return PLACES[only];
  if (request.flag("global")) return PLACES.global_memory;
  const isProfile = request.flag("profile") || request.text("target") === "profile";
  if (isProfile && !process.operator) {
    throw new SyscallError(
      "PERMISSION",
      `${COMMIT}: a run changes the profile by ${PROFILE} (MemoryProfile).`,
    );
  }
  if (isProfile) return PLACES.profile;
  if (request.text("target") === undefined) return undefined;
  return PLACES[request.oneOf("target", ["memory", "global_memory"])];
}

async function textOf(memory: Memory, places: readonly Place[], signal: AbortSignal): Promise<string> {
  const parts: string[] = [];
  for (const place of places) {
    parts.push(notesText(await memory.read(place, signal), await memory.pathOf(place)));
  }
  return parts.join("\n\n");
}

/** All entries of these scopes, each with its file. */
async function jsonOf(memory: Memory, places: readonly Place[], signal: AbortSignal): Promise<string> {
  const documents: object[] = [];
  for (const place of places) {
    documents.push({
      ...(await documentOf(memory, place, true, signal)),
      file: await memory.pathOf(place),
    });
  }
  return JSON.stringify(documents, null, 1);
}

async function documentOf(
  memory: Memory,
  place: Place,
  withEntries: boolean,
  signal: AbortSignal,
): Promise<object> {
  const notes = await memory.read(place, signal);
  const inPrompt = newestThatFit(notes.used, place.inPrompt(memory.limits));
  return notesDocument(notes, inPrompt, withEntries);
}
