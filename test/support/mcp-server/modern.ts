/**
 * A server of the revision 2026-07-28 alone, by hand: no `initialize`, `server/discover` instead, and every result
 * says what kind it is.
 */
interface Request {
  id?: number | string;
  method: string;
  params?: { arguments?: object };
}

const RESULTS: Record<string, (request: Request) => object> = {
  "server/discover": () => ({
    supportedVersions: ["2026-07-28"],
    capabilities: { tools: {} },
    serverInfo: { name: "modern", version: "1" },
  }),
  "tools/list": () => ({ tools: [{ name: "echo", inputSchema: { type: "object" } }] }),
  "tools/call": ({ params }) => ({ content: [{ type: "text", text: JSON.stringify(params?.arguments) }] }),
};

export async function serveModern(): Promise<void> {
  for await (const line of console) process.stdout.write(modernAnswer(line));
}

/** What it answers to one line; "" to a notification. */
export function modernAnswer(line: string): string {
  const request: Request = JSON.parse(line);
  const { id, method } = request;
  if (id === undefined) return "";
  const result = RESULTS[method]?.(request);
  const answer = result
    ? { result: { resultType: "complete", ttlMs: 0, cacheScope: "private", ...result } }
    : { error: { code: -32_601, message: `no such method: ${method}` } };
  return `${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`;
}
