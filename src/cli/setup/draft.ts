/** A provider while it is being set up, before anything is written. */

import type { ProviderWire, TriedModelWire } from "../../protocol/methods.ts";
import type { ModelsAnswer } from "../../server/catalog/list-models.ts";
import { type Io, project, type Session, type Wire } from "../io.ts";
import { formatCost, formatElapsed, oneLine, plural } from "../output/format.ts";

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

  async providers(): Promise<ProviderWire[]> {
    return (await this.#ask((wire) => wire.request("list_providers", project(this.#io)))).providers;
  }

  models(draft: Draft, waitMs = LIST_MS): Promise<ModelsAnswer> {
    const asked = { ...this.#about(draft), wait_ms: waitMs };
    return this.#ask((wire) => wire.request("list_models", asked, { timeoutMs: ANSWER_MS }));
  }

  sendWord(draft: Draft, model: string): Promise<TriedModelWire> {
    const asked = { ...this.#about(draft), model };
    return this.#ask((wire) => wire.request("try_model", asked, { timeoutMs: ANSWER_MS }));
  }

  async #ask<T>(request: (wire: Wire) => Promise<T>): Promise<T> {
    const wire = await this.#session.connect();
    try {
      return await request(wire);
    } finally {
      wire.close();
    }
  }

  /** The key that was entered is in the environment of the request only. */
  #about({ name, entry, key }: Draft) {
    const { cwd, env } = project(this.#io);
    return { cwd, env: { ...env, ...(key && { [key.variable]: key.value }) }, provider: name, entry };
  }
}

const ANSWER_WIDTH = 40;

export function answeredText({ text, tokens, cost_usd, ms }: TriedModelWire): string {
  const cost = cost_usd === null ? "cost not known" : formatCost(cost_usd);
  return `It answered "${oneLine(text, ANSWER_WIDTH)}" after ${formatElapsed(ms)}: ${plural(tokens, "token")}, ${cost}.`;
}
