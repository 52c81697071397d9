import anthropic from "../../plugins/anthropic.ts";
import claude from "../../plugins/claude/index.ts";
import cursor from "../../plugins/cursor/index.ts";
import google from "../../plugins/google.ts";
import openai from "../../plugins/openai.ts";
import compatible from "../../plugins/openai-compatible.ts";
import replay from "../../plugins/replay/index.ts";
import type { DriverFacts, Plugin } from "../../src/plugin/index.ts";

const PLUGINS: readonly Plugin[] = [anthropic, openai, google, compatible, claude, cursor, replay];

/** The facts that the stock model drivers declare, by the driver's name. */
export const STOCK_FACTS: ReadonlyMap<string, DriverFacts> = new Map(
  PLUGINS.flatMap(({ devices = {} }) =>
    Object.entries(devices).flatMap(([path, { provider }]) => {
      if (!provider) return [];
      const { detect: _, ...facts } = provider;
      return [[path.slice("/dev/llm/".length), facts] as const];
    }),
  ),
);
