import { z } from "zod";

/** `Clock` of the kernel, as far as a deadline needs it. */
export interface Timers {
  timer(ms: number, f: () => void): { cancel(): void };
}

/** A server on this machine answers at once or is not there. */
const ANSWER_MS = 500;

/**
 * The models that an Ollama server at this address (`…/v1`) has and that can talk, the last used first; null when
 * nothing like it answers there in half a second.
 */
export async function ollamaModels(baseUrl: string, clock: Timers): Promise<string[] | null> {
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
    // Nobody there, somebody else, or too slow: all the same to whoever looks around.
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

/** Those that only make vectors of texts are of these families. */
function talks({ details }: Tag): boolean {
  return !/bert/.test(details?.family ?? "");
}
