/** `rnix models`: lists the models of the providers, with windows and prices. */

import { defineCommand } from "../command.ts";
import { bool, json, text } from "../flags.ts";
import { project, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { MODEL_FACTS } from "../output/models.ts";

/** A service's own list is waited for this long; with --refresh longer. */
const WAIT_MS = 1000;
const REFRESH_MS = 15_000;
/** Each service has its own deadline; this is for all of them and the keys' commands together. */
const ANSWER_MS = 60_000;

export default defineCommand({
  about: "List the models, with context window and prices, and which one a run uses here and why",
  lists: true,
  flags: {
    provider: text("only the models of this provider, with or without a key", "NAME"),
    refresh: bool(
      `wait up to ${REFRESH_MS / 1000}s for the services' own lists, instead of ${WAIT_MS / 1000}s`,
    ),
    json,
  },
  examples: {
    "rnix models": "the models of every provider that can be used here",
    "rnix models --provider anthropic": "the models of one provider",
  },
  notes: [
    "Services with a key are asked for their own list. Without an answer, the models are those of the table of known models (docs/providers.md) and of providers.yaml.",
    "Prices are in USD per million tokens. The cost of a run and its share of the context window are computed from the same figures.",
  ],
  run: (io, { provider, refresh, json }) =>
    withWire(io, async (wire) => {
      const asked = { ...project(io), provider, wait_ms: refresh ? REFRESH_MS : WAIT_MS };
      const { models, chosen, diagnostics } = await wire.request("list_models", asked, {
        timeoutMs: ANSWER_MS,
      });
      for (const { path, message } of diagnostics) {
        io.stderr.write(`${path}: ${message.replace(/\.$/, "")}. Its models are those that Rnix knows.\n`);
      }
      const why =
        chosen === null
          ? "There is no default model here: rnix providers says what is missing, rnix setup sets a provider up."
          : `* the default here: ${chosen.model} of ${chosen.provider} (${chosen.because}). USD per million tokens.`;
      const code = printCatalog(
        io,
        models,
        [
          { title: "MODEL", value: ({ model, chosen }) => `${model}${chosen ? " *" : ""}` },
          { title: "PROVIDER", value: ({ provider }) => provider },
          ...MODEL_FACTS,
        ],
        { json, empty: why, answer: { default: chosen, models } },
      );
      if (!json && models.length > 0) io.stderr.write(`${why}\n`);
      return code;
    }),
});
