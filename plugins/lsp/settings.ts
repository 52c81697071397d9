/** The settings of the plugin: `plugins: {lsp: …}` of config.yaml. */

export const SETTINGS = {
  type: "object",
  properties: {
    servers: {
      type: "object",
      description: "Servers by name: new ones, or other commands for known ones. `false` switches one off.",
      additionalProperties: {
        anyOf: [
          { type: "boolean", const: false },
          {
            type: "object",
            properties: {
              command: { type: "array", items: { type: "string" }, minItems: 1 },
              languages: {
                type: "object",
                description: 'The language id of each file extension, such as {".ts": "typescript"}.',
                additionalProperties: { type: "string" },
              },
              roots: { type: "array", items: { type: "string" } },
              options: { type: "object", description: "The initializationOptions of the server." },
            },
            additionalProperties: false,
          },
        ],
      },
    },
  },
  additionalProperties: false,
} as const;
