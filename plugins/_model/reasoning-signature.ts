/** Collects the signatures of a model's reasoning, stores them with its tool calls, and reads them back. */

import type { JSONValue, SharedV4ProviderMetadata } from "@ai-sdk/provider";
import type { ToolCall } from "rnix/plugin";
import { z } from "zod";

/** Sent back to the provider with a call: its signatures of the call and of the thoughts before it. */
interface Signatures {
  /** The model that signed: another one cannot read this, and may refuse it. */
  by: string;
  /** The thoughts before it, on the first call of an answer. */
  thoughts?: Thought[];
  meta?: SharedV4ProviderMetadata;
}

interface Thought {
  text: string;
  meta: SharedV4ProviderMetadata;
}

/** Collects the signatures of an answer, streamed or in one piece. */
export class ReasoningSignatures {
  readonly #by: string;
  readonly #thoughts: { text: string; meta?: SharedV4ProviderMetadata }[] = [];
  readonly #open = new Map<string, { text: string; meta?: SharedV4ProviderMetadata }>();
  readonly #calls = new Map<string, SharedV4ProviderMetadata>();

  constructor(by: string) {
    this.#by = by;
  }

  /** Adds text, a signature or both to the thought `id`. */
  addDelta(id: string, text: string, meta: SharedV4ProviderMetadata | undefined): void {
    let thought = this.#open.get(id);
    if (thought === undefined) {
      thought = { text: "" };
      this.#open.set(id, thought);
      this.#thoughts.push(thought);
    }
    thought.text += text;
    if (meta !== undefined) thought.meta = merged(thought.meta, meta);
  }

  /** Adds a complete thought. */
  add(text: string, meta: SharedV4ProviderMetadata | undefined): void {
    this.#thoughts.push({ text, meta });
  }

  call(id: string, meta: SharedV4ProviderMetadata | undefined): void {
    if (meta !== undefined) this.#calls.set(id, meta);
  }

  /** The calls with their signatures. Thoughts without a signature are left out. */
  signed(calls: ToolCall[]): ToolCall[] {
    const thoughts = this.#thoughts.flatMap(({ text, meta }) => (meta === undefined ? [] : { text, meta }));
    return calls.map((call, index) => {
      const meta = this.#calls.get(call.id);
      const first = index === 0 && thoughts.length > 0;
      if (meta === undefined && !first) return call;
      const signatures: Signatures = { by: this.#by, ...(first && { thoughts }), ...(meta && { meta }) };
      return { ...call, opaque: JSON.stringify(signatures) };
    });
  }
}

/** The signatures that `signed` added; undefined when they are not from this model. */
export function signaturesOf({ opaque }: ToolCall, by: string): Signatures | undefined {
  if (opaque === undefined) return undefined;
  try {
    const { data } = SignaturesSchema.safeParse(JSON.parse(opaque));
    return data?.by === by ? data : undefined;
  } catch {
    // Another driver's text may be anything.
    return undefined;
  }
}

const Meta = z.lazy(() => z.record(z.string(), z.record(z.string(), z.json())));
const SignaturesSchema = z.lazy(() =>
  z.object({
    by: z.string(),
    thoughts: z.array(z.object({ text: z.string(), meta: Meta })).optional(),
    meta: Meta.optional(),
  }),
);

/** Later values replace earlier ones, unless they are null. */
export function merged(
  before: SharedV4ProviderMetadata | undefined,
  meta: SharedV4ProviderMetadata,
): SharedV4ProviderMetadata {
  const result = { ...before };
  for (const [provider, values] of Object.entries(meta)) {
    const given = Object.entries(values).filter((entry): entry is [string, JSONValue] => entry[1] != null);
    result[provider] = { ...result[provider], ...Object.fromEntries(given) };
  }
  return result;
}
