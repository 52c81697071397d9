/** Opens a new process: its conversation, mounts, tools and model. */

import { recordedMode } from "../../lib/ask-modes.ts";
import { LastEqual, lazy } from "../../lib/caches.ts";
import { type Message, O_RDWR, type SyscallError } from "../../plugin/index.ts";
import { modeNews } from "../asks/ask-text.ts";
import { firstMessage, storeImages } from "../conversation/conversations.ts";
import { assembleHead } from "../conversation/prompt-head.ts";
import { fitToModel } from "../llm/fallback.ts";
import type { Process } from "../process/process.ts";
import { restoreTools } from "../resume/restored-settings.ts";
import type { SavedRun } from "../resume/saved-run.ts";
import type { Io } from "../tiers/io.ts";
import type { AskedPart } from "../tools/plugin-hooks.ts";
import {
  namesMessageTools,
  showTools,
  startsWithMessages,
  toolForModel,
  writeMeta,
} from "../tools/tool-catalog.ts";
import type { SpawnOpts } from "../types.ts";
import { permissionsOf, unmetSkillNeeds } from "./spawn-limits.ts";

const promptParts = lazy(() => import("../tools/plugin-hooks.ts"));

/** What a process begins with. */
export interface OpenRequest {
  /** Attached images, written beside the record. */
  images?: SpawnOpts["images"];
  /** The run to resume or fork. */
  saved?: SavedRun;
}

/** Opens new processes. Each part that it opens adds a step to `undo`. */
export class ProcessOpener {
  readonly #parts: Io;
  readonly #heads = new LastEqual<string>();

  constructor(parts: Io) {
    this.#parts = parts;
  }

  /** Opens the conversation and the model, and writes the first files. */
  async open(proc: Process, { saved, images = [] }: OpenRequest, undo: (() => unknown)[]): Promise<void> {
    const { contexts, ctx, files, inboxes } = this.#parts;
    const { intent, opts } = proc.spec;
    // A fork sees today's tools and skills (design §4).
    const before = saved?.fork ? undefined : saved;
    const head = before?.meta.system_prompt ?? (await this.#head(proc));
    if (before) proc.conversation.promptParts = before.meta.prompt_parts ?? [];
    proc.conversation.id = await ctx.alloc(proc, Number.POSITIVE_INFINITY);
    undo.push(() => contexts.ctxFree(proc.conversation.id));
    contexts.setSystemPrompt(proc.conversation.id, head);
    if (saved) {
      if (saved.fork) {
        const what = saved.fork.adopted ? "a new run with the conversation of the foreign run" : "a fork of";
        proc.notices.unshift(`${what} ${saved.info.uuid}, continued after its step ${saved.history.step}`);
      }
      await ctx.restore(proc, saved.history);
      proc.notices.push(...saved.damage);
      if (proc.record.untraced) proc.notices.push(untraced(proc.record.untraced));
    } else {
      proc.conversation.images = await storeImages(proc.record, images);
      const first = firstMessage(intent, opts.input, proc.conversation.images);
      if (opts.chat) await this.#beginChat(proc, first, undo);
      else await ctx.append(proc, first);
    }
    if (saved && saved.unread.length > 0) {
      undo.push(() => inboxes.clear(proc));
      inboxes.of(proc).putBack(saved.unread);
    }
    if (saved || proc.permissions.askMode === "plan") await this.#announceMode(proc, saved);
    undo.push(() => this.#parts.mounts.clear(proc));
    if (saved) proc.conversation.images = saved.spawned.images ?? [];
    const { mounts = [] } = opts;
    if (mounts.length === 0) proc.notices.push(...this.#offerTools(proc, head, saved));
    else {
      proc.toolset.preparation = {
        mounts,
        resumes: before !== undefined,
        shown: before?.meta.tools.map(({ name }) => name) ?? [],
        finish: (missing) => {
          this.#requireTools(proc, saved, missing);
          return this.#offerTools(proc, head, saved);
        },
      };
      // A resumed run has it from before.
      if (!before) writeMeta(proc, contexts);
    }
    undo.push(() => files.closeAll(proc));
    if (!opts.provider) return;
    proc.model.fd = await files.open(proc, opts.provider.device, O_RDWR, { kind: "kernel" });
    await fitToModel(files, proc);
  }

  /** The first message of a chat comes like all others: the user can take it back until the model has read it. */
  async #beginChat(
    proc: Process,
    { content: text, images }: Message,
    undo: (() => unknown)[],
  ): Promise<void> {
    const { clock, inboxes } = this.#parts;
    proc.run.turnOver = true;
    if (text === "") return;
    undo.push(() => inboxes.clear(proc));
    const ts = new Date(clock.now()).toISOString();
    await inboxes.of(proc).put({ kind: "input", ts, text, images });
  }

  /** Notifies the model of the mode plan, or of its end by a resume. */
  async #announceMode(proc: Process, saved: SavedRun | undefined): Promise<void> {
    const { clock, inboxes } = this.#parts;
    const text = modeNews(recordedMode(saved?.info.permissions ?? {}), proc.permissions.askMode);
    if (text === "" || proc.spec.kind !== "agent") return;
    const ts = new Date(clock.now()).toISOString();
    await inboxes.of(proc).put({ kind: "notice", ts, source: "kernel", text });
  }

  /** Shows the model its tools: of a resumed run as before. Returns notices for the user. */
  #offerTools(proc: Process, head: string, saved: SavedRun | undefined): string[] {
    const before = saved?.fork ? undefined : saved;
    const shown = before?.meta.tools ?? [];
    proc.toolset.messaging =
      startsWithMessages(proc, head) || namesMessageTools(...shown.map(({ name }) => name));
    proc.toolset.shown = new Map();
    // A fork's model has read that it has loaded them.
    const loaded = new Set(saved?.meta.tools.map(({ name }) => name));
    const notices = before ? restoreTools(proc, shown) : unmetSkillNeeds(proc);
    if (!before) showTools(proc, loaded);
    writeMeta(proc, this.#parts.contexts);
    if (saved && !saved.fork?.adopted && saved.info.model === proc.model.provider.model)
      this.#recall(proc, head, saved);
    return notices;
  }

  /** Fails with INVALID for a rule that names no tool. `missing`: prefixes of tools that may come later. */
  #requireTools(proc: Process, saved: SavedRun | undefined, missing: readonly string[]): void {
    const { opts, agent, namespace } = proc.spec;
    const parent = this.#parts.table.parent(proc);
    // Recorded rights may name tools that are gone.
    if (!saved || saved.fork?.adopted) permissionsOf(agent, opts, namespace, parent, missing);
    proc.permissions = proc.permissions.withFacts({ expected: missing });
  }

  /** The last answer says how the model counts tokens. */
  #recall(proc: Process, head: string, { history }: SavedRun): void {
    if (!history.asked) return;
    const { messages, tokens } = history.asked;
    const tools = [...proc.toolset.shown.values()].map(({ tool }) => toolForModel(tool));
    const { model } = proc.model.provider;
    proc.model.estimate.learn({ model, system_prompt: head, messages, tools }, tokens);
  }

  async #promptParts(proc: Process): Promise<{ parts: AskedPart[]; notices: string[] }> {
    if (!proc.spec.opts.devices.hooks?.length) return { parts: [], notices: [] };
    const { askPromptParts } = await promptParts();
    return askPromptParts(proc, this.#parts.makeContext);
  }

  async #head(proc: Process): Promise<string> {
    const { agent, opts, checks } = proc.spec;
    const [skills, { parts, notices }] = await Promise.all([
      Promise.all(
        agent.skills.map(async (skill) => ({ name: skill.name, dir: skill.dir, body: await skill.body() })),
      ),
      this.#promptParts(proc),
    ]);
    proc.notices.push(...notices);
    const shown = parts.map(({ plugin, title, text }) => ({ plugin, title, characters: text.length }));
    proc.conversation.promptParts = shown;
    const head = assembleHead({
      instructions: agent.instructions,
      skills,
      deferredSkills: agent.deferredSkills,
      systemPrompt: opts.system_prompt,
      projectDoc: opts.projectDoc,
      parts,
      outputSchema: opts.output_schema,
      checks,
      environment: {
        project: opts.project.dir,
        cwd: opts.cwd,
        date: new Date(this.#parts.clock.now()).toISOString().slice(0, 10),
        platform: this.#parts.platform,
      },
    });
    return this.#heads.of(proc.secrets.hide(head));
  }
}

function untraced({ message }: SyscallError): string {
  return `events.jsonl of its record: ${message} The run continues without a trace.`;
}
