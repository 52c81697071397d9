/** Finds the models of an Ollama server on this machine. */

import { z } from "zod";
import type { Clock } from "../../lib/clock.ts";

/** A local server answers at once or is not running. */
const ANSWER_MS = 500;

/**
 * The chat models of the Ollama server at this address (`…/v1`), the last used first. null when no such server answers
 * within half a second.
 */
export async function ollamaModels(baseUrl: string, clock: Pick<Clock, "timer">): Promise<string[] | null> {
  const late = new AbortController();
  const timer = clock.timer(ANSWER_MS, () => late.abort());
  try {
    const response = await fetch(new URL("../api/tags", `${baseUrl.replace(/\/+$/, "")}/`), {
      signal: late.signal,
      redirect: "error",
    });
    if (!response.ok) return null;
    const { models } = Tags.parse(await response.json());
    return models.filter(talks).map(({ name }) => name);
  } catch {
    // No server, another program or a slow answer: for the search there is no Ollama.
    return null;
  } finally {
    timer.cancel();
  }
}

const Tags = z.lazy(() =>
  z.object({
    models: z.array(
      z.object({
        name: z.string().min(1),
        details: z.object({ family: z.string().optional() }).nullish(),
      }),
    ),
  }),
);
type Tag = z.infer<typeof Tags>["models"][number];

/** Models of the bert families only make embeddings. */
function talks({ details }: Tag): boolean {
  return !/bert/.test(details?.family ?? "");
}
