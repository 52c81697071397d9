import { ModelServer } from "../../test/support/model-server/server.ts";
import type { Figure } from "../figure.ts";
import { median, timed } from "../measure.ts";
import type { Place } from "../place.ts";

const INTENT = "say hello to a friend";
/** A digit makes each of them another one: the loop guard ends a run that repeats itself. */
const command = (step: number): string => `true ${step}`;
/** What the model is shown of that command's output. */
const OUTPUT = "[no output]";
const STEPS = 10;
/** 5.5 KiB. */
const FIRST_REQUEST = 5_632;

/** Bytes of the HTTP requests of a run with the default agent, in a project that says nothing of itself. */
export async function prompt(place: Place): Promise<Figure[]> {
  const drivers = ["openai", "anthropic"];
  const sizes = await Promise.all(drivers.map((driver) => requestSizes(place, driver)));
  const first = drivers.map((driver, at): Figure => {
    return {
      what: `first request, ${driver}`,
      value: sizes[at]?.[0] ?? 0,
      unit: "bytes",
      goal: FIRST_REQUEST,
    };
  });
  const steps = drivers.map((driver, at): Figure => {
    const own = command(0).length + OUTPUT.length;
    const value = median(growth(sizes[at] ?? [])) - own;
    return { what: `a step adds, beside its command and output, ${driver}`, value, unit: "bytes" };
  });
  return [...first, ...steps];
}

async function requestSizes(place: Place, driver: string): Promise<number[]> {
  await using server = await ModelServer.start(({ assistantMessages }) =>
    assistantMessages < STEPS
      ? { tool_calls: [{ name: "Bash", input: { command: command(assistantMessages) } }] }
      : { text: "done" },
  );
  const spawn = place.user("main").rnix("spawn", "--provider", driver, "--model", "m", "-q", INTENT);
  const env = {
    OPENAI_BASE_URL: server.openaiUrl,
    OPENAI_API_KEY: "none",
    ANTHROPIC_BASE_URL: server.url,
    ANTHROPIC_API_KEY: "none",
  };
  await timed({ ...spawn, env: { ...spawn.env, ...env } });
  if (server.requests.length !== STEPS + 1)
    throw new Error(`expected ${STEPS + 1} requests, got ${server.requests.length}`);
  return server.requests.map(({ text }) => Buffer.byteLength(text));
}

function growth(sizes: readonly number[]): number[] {
  return sizes.slice(1).map((size, at) => size - (sizes[at] ?? 0));
}
