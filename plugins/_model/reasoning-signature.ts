import type { JSONValue, SharedV4ProviderMetadata } from "@ai-sdk/provider";
import type { ToolCall } from "rnix/plugin";
import { z } from "zod";

/** What a provider package wants to see again with a call: how the provider signed it and the thoughts before it. */
interface Handback {
  /** Of whom: another model cannot read it, and may refuse it. */
  by: string;
  /** On the first call of an answer: what was thought before it. */
  thoughts?: Thought[];
  meta?: SharedV4ProviderMetadata;
}

interface Thought {
  text: string;
  meta: SharedV4ProviderMetadata;
}

/** Collects it from an answer, whole or streamed. */
export class ReasoningSignatures {
  readonly #by: string;
  readonly #thoughts: { text: string; meta?: SharedV4ProviderMetadata }[] = [];
  readonly #open = new Map<string, { text: string; meta?: SharedV4ProviderMetadata }>();
  readonly #calls = new Map<string, SharedV4ProviderMetadata>();

  constructor(by: string) {
    this.#by = by;
  }

  /** A piece of the thought `id`, which may bring text, a signature or both. */
  piece(id: string, text: string, meta: SharedV4ProviderMetadata | undefined): void {
    let thought = this.#open.get(id);
    if (thought === undefined) {
      thought = { text: "" };
      this.#open.set(id, thought);
      this.#thoughts.push(thought);
    }
    thought.text += text;
    if (meta !== undefined) thought.meta = merged(thought.meta, meta);
  }

  /** A thought that came whole. */
  whole(text: string, meta: SharedV4ProviderMetadata | undefined): void {
    this.#thoughts.push({ text, meta });
  }

  call(id: string, meta: SharedV4ProviderMetadata | undefined): void {
    if (meta !== undefined) this.#calls.set(id, meta);
  }

  /** The calls with what is to be handed back with them. Thoughts that nobody signed are nobody's business. */
  signed(calls: ToolCall[]): ToolCall[] {
    const thoughts = this.#thoughts.flatMap(({ text, meta }) => (meta === undefined ? [] : { text, meta }));
    return calls.map((call, index) => {
      const meta = this.#calls.get(call.id);
      const first = index === 0 && thoughts.length > 0;
      if (meta === undefined && !first) return call;
      const handback: Handback = { by: this.#by, ...(first && { thoughts }), ...(meta && { meta }) };
      return { ...call, opaque: JSON.stringify(handback) };
    });
  }
}

/** What `signed` has put there; undefined when it is not of this model. */
export function signaturesOf({ opaque }: ToolCall, by: string): Handback | undefined {
  if (opaque === undefined) return undefined;
  try {
    const { data } = Read.safeParse(JSON.parse(opaque));
    return data?.by === by ? data : undefined;
  } catch {
    // Another driver's, which may be anything.
    return undefined;
  }
}

const Meta = z.lazy(() => z.record(z.string(), z.record(z.string(), z.json())));
const Read = z.lazy(() =>
  z.object({
    by: z.string(),
    thoughts: z.array(z.object({ text: z.string(), meta: Meta })).optional(),
    meta: Meta.optional(),
  }),
);

/** A later word counts, where it is one. */
export function merged(
  before: SharedV4ProviderMetadata | undefined,
  meta: SharedV4ProviderMetadata,
): SharedV4ProviderMetadata {
  const result = { ...before };
  for (const [provider, values] of Object.entries(meta)) {
    const said = Object.entries(values).filter((entry): entry is [string, JSONValue] => entry[1] != null);
    result[provider] = { ...result[provider], ...Object.fromEntries(said) };
  }
  return result;
}
