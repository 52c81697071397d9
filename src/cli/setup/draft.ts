/** A provider while it is being set up, before anything is written. */

import type { TriedModelWire } from "../../protocol/methods.ts";
import type { ModelsAnswer } from "../../server/catalog/list-models.ts";
import { environment, type Io, type Session } from "../io.ts";

export interface Draft {
  name: string;
  /** The keys of its entry in providers.yaml that change. null removes one. */
  entry: Readonly<Record<string, string | null>>;
  /** A key that was entered: it is stored below this variable. */
  key?: { variable: string; value: string };
}

/** A service that does not answer is waited for this long. */
const LIST_MS = 15_000;
const ANSWER_MS = 60_000;

/** Asks the server about a draft, as if it were written. */
export class DraftServer {
  readonly #io: Io;
  readonly #session: Session;

  constructor(io: Io, session: Session) {
    this.#io = io;
    this.#session = session;
  }

  async providers() {
    const wire = await this.#session.connect();
    try {
      return (await wire.request("list_providers", this.#place())).providers;
    } finally {
      wire.close();
    }
  }

  async models(draft: Draft, waitMs = LIST_MS): Promise<ModelsAnswer> {
    const wire = await this.#session.connect();
    try {
      const asked = { ...this.#place(draft), provider: draft.name, entry: draft.entry, wait_ms: waitMs };
      return await wire.request("list_models", asked, { timeoutMs: ANSWER_MS });
    } finally {
      wire.close();
    }
  }

  async sendWord(draft: Draft, model: string): Promise<TriedModelWire> {
    const wire = await this.#session.connect();
    try {
      const asked = { ...this.#place(draft), provider: draft.name, entry: draft.entry, model };
      return await wire.request("try_model", asked, { timeoutMs: ANSWER_MS });
    } finally {
      wire.close();
    }
  }

  /** The key that was entered stands in the environment of the request only. */
  #place(draft?: Draft): { cwd: string; env: Record<string, string> } {
    const env = environment(this.#io);
    if (draft?.key !== undefined) env[draft.key.variable] = draft.key.value;
    return { cwd: this.#io.cwd, env };
  }
}
