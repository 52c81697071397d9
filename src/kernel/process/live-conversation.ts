/** The conversation of a live process, and the tools that its model is offered. */

import type { ImageRef, Message } from "../../plugin/index.ts";
import type { Compaction, ProcessMeta } from "../../store/runs/schema.ts";
import type { SkillInfo } from "../types.ts";
import type { Preparation, ProcessTool, StartingMount } from "./process-spec.ts";

/** Owned by the context manager; the opener begins it. */
export class LiveConversation {
  /** Allocated by the opener, freed by the reap. */
  id = 0;
  /** Parts of the prompt head that plugins gave, without their text. */
  promptParts: NonNullable<ProcessMeta["prompt_parts"]> = [];
  /** Loaded skills: the agent's, and the ones that the Skill tool added. */
  readonly skills: SkillInfo[];
  /** Images of the first message, in order. */
  images: readonly ImageRef[] = [];
  /** Messages that no step record holds yet. */
  readonly unrecorded: Message[] = [];
  /** Compactions since the last step record. */
  readonly compactions: Compaction[] = [];
  /** The summary that replaces the oldest messages. */
  summary: Compaction["summary"] = null;

  constructor(skills: SkillInfo[]) {
    this.skills = skills;
  }
}

/** Owned by the tool catalog; StartMounts adds the tools of mounts. */
export class Toolset {
  /**
   * Tools that the model is shown. New ones are appended and none is removed or moved, so that the provider's prompt
   * cache hits; a call of a withdrawn tool is refused.
   */
  readonly shown = new Map<string, ProcessTool>();
  /** Set while the mounts are made: the model is shown its tools when that is done. */
  preparation: Preparation | undefined;
  /** The mounts that are being made, and those that failed, by the prefix of their tools. */
  starting = NOT_STARTING;
  /** Whether the model is shown the message tools. */
  messaging = false;
}

const NOT_STARTING = new Map<string, StartingMount>();
