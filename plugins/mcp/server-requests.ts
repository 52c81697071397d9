/** What an MCP server may ask of its client: every request is answered at once, by policy. */

import { type Client, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/client";

/** Characters of a server's question in the notice about it. */
const MAX_QUESTION = 300;

/** Announced, so that a server gets an answer instead of failing where it asks. */
export const CAPABILITIES = { elicitation: { form: {}, url: {} } };

/** `asked` gets a notice about each request: for the log and for the calls that are open. */
export function answerByPolicy(client: Client, asked: (notice: string) => void): void {
  client.setRequestHandler("elicitation/create", async ({ params }) => {
    const url = "url" in params ? ` (${params.url})` : "";
    const question = JSON.stringify(`${params.message}${url}`.slice(0, MAX_QUESTION));
    asked(
      `The MCP server asked the user ${question}. It was declined: a run does not wait for answers to servers.`,
    );
    return { action: "decline" };
  });
  // Not announced: a server that asks for it anyway is refused.
  client.fallbackRequestHandler = async ({ method }) => {
    asked(
      `The MCP server asked its client for ${method.slice(0, MAX_QUESTION)}. It was refused: servers get no model and no folders here.`,
    );
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, `${method} is not offered`);
  };
}
