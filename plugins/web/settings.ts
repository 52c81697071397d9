/** The settings of the plugin: `plugins: {web: …}` of config.yaml. */

import type { FromSchema } from "rnix/plugin";

export const SETTINGS = {
  type: "object",
  properties: {
    addresses: {
      type: "array",
      items: { type: "string" },
      description:
        "Addresses and ranges (CIDR) that are not public and may be reached, such as 192.168.1.20.",
    },
    search: {
      type: "object",
      properties: {
        engine: { type: "string", enum: ["searxng", "brave", "tavily"] },
        url: { type: "string", description: "The address of the search engine; SearXNG has no default." },
      },
      additionalProperties: false,
    },
  },
  additionalProperties: false,
} as const;

export type WebSettings = FromSchema<typeof SETTINGS>;
