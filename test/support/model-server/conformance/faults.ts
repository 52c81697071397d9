import type { Code } from "../../../../src/plugin/index.ts";
import { type Fault, ModelServer, type Turn } from "../server.ts";
import { SELF_SIGNED } from "../tls.ts";
import type { HttpDriver } from "./driver.ts";

/** One way for a request to fail. */
export interface FaultCase {
  title: string;
  /** The address that is called; by default a server that plays `fault`. */
  where?: (turns: Turn[]) => Promise<Asked>;
  fault?: (driver: HttpDriver) => Fault;
  expected: Expected;
  /** Where it is not the same without a stream. */
  inOnePiece?: Expected;
}

export interface Expected {
  code: Code;
  retryable: boolean;
  says?: (driver: HttpDriver) => string | RegExp;
  retryAfterMs?: number;
  tooLong?: true;
}

/** A server, or an address where none is. */
export interface Asked extends AsyncDisposable {
  url: string;
  requests?: unknown[];
}

const REFUSED: Expected = { code: "PERMISSION", retryable: false, says: (driver) => driver.keyVariable };
const TOO_LONG: Expected = {
  code: "INVALID",
  retryable: false,
  tooLong: true,
  says: () => "longer than the model takes",
};
const DOWN: Expected = { code: "UNAVAILABLE", retryable: true };
const ODD: Expected = { code: "DRIVER", retryable: true };
const LIMITED: Expected = { code: "EXHAUSTED", retryable: true };

const status = (status: number, more: Partial<Fault & { kind: "status" }> = {}) => {
  return (): Fault => ({ kind: "status", status, ...more });
};

const DATE = new Date(Date.UTC(2026, 0, 1)).toUTCString();
const LATER = new Date(Date.UTC(2026, 0, 1, 0, 0, 30)).toUTCString();

export const FAULTS: readonly FaultCase[] = [
  { title: "401, a wrong key", fault: status(401), expected: REFUSED },
  { title: "403, a key without the right", fault: status(403), expected: REFUSED },
  {
    title: "404, an unknown model",
    fault: status(404),
    expected: { code: "NOT_FOUND", retryable: false, says: () => /"scripted"/ },
  },
  { title: "400", fault: status(400), expected: { code: "INVALID", retryable: false } },
  {
    title: "a conversation that is too long, as this provider says it",
    fault: (driver) => driver.tooLong,
    expected: TOO_LONG,
  },
  { title: "413, a request that is too large", fault: status(413), expected: TOO_LONG },
  {
    title: "402, no credit left",
    fault: status(402),
    expected: { code: "EXHAUSTED", retryable: false, says: () => "credit" },
  },
  {
    title: "429 with `Retry-After` in seconds",
    fault: status(429, { headers: { "retry-after": "7" } }),
    expected: { ...LIMITED, retryAfterMs: 7_000 },
  },
  {
    title: "429 with `Retry-After` as a date",
    fault: status(429, { headers: { "retry-after": LATER, date: DATE } }),
    expected: { ...LIMITED, retryAfterMs: 30_000 },
  },
  {
    title: "429 with `retry-after-ms`",
    fault: status(429, { headers: { "retry-after-ms": "250", "retry-after": "1" } }),
    expected: { ...LIMITED, retryAfterMs: 250 },
  },
  {
    title: "429 with a `Retry-After` of an hour",
    fault: status(429, { headers: { "retry-after": "3600" } }),
    expected: { ...LIMITED, retryAfterMs: 3_600_000 },
  },
  { title: "429 without a word on when", fault: status(429), expected: LIMITED },
  {
    title: "307, ask another address: key and conversation are not sent there",
    where: elsewhere,
    expected: { code: "UNAVAILABLE", retryable: false, says: () => /answered 307: ask at ".*elsewhere/ },
  },
  { title: "409, a collision on the other side", fault: status(409), expected: DOWN },
  { title: "500", fault: status(500), expected: DOWN },
  { title: "500 without a body", fault: status(500, { body: "" }), expected: DOWN },
  { title: "503 with a web page", fault: status(503, { body: "<html>Bad gateway" }), expected: DOWN },
  {
    title: "503 with `Retry-After`",
    fault: status(503, { headers: { "retry-after": "3" } }),
    expected: { ...DOWN, retryAfterMs: 3_000 },
  },
  { title: "529, overloaded", fault: status(529), expected: DOWN },
  {
    title: "200 with an error in place of the answer",
    fault: ({ names }) => ({ kind: "error_body", code: names.overloaded }),
    expected: DOWN,
  },
  {
    title: "200 with an unknown error",
    fault: () => ({ kind: "error_body", code: "odd" }),
    expected: ODD,
  },
  {
    title: "200 with a web page",
    fault: () => ({ kind: "web_page" }),
    expected: { code: "DRIVER", retryable: false, says: () => /base_url/ },
  },
  {
    title: "an error in the middle of the answer",
    fault: ({ names }) => ({ kind: "error_event", code: names.overloaded, message: "too much" }),
    expected: { ...DOWN, says: () => "too much" },
  },
  {
    title: "a limit reached in the middle of the answer",
    fault: ({ names }) => ({ kind: "error_event", code: names.limited }),
    expected: LIMITED,
  },
  { title: "a connection cut in the middle", fault: () => ({ kind: "cut" }), expected: DOWN },
  {
    title: "an answer that ends too early",
    fault: () => ({ kind: "end_early" }),
    expected: DOWN,
    // Half a JSON document is not an answer that broke off but one that cannot be read.
    inOnePiece: ODD,
  },
  {
    title: "garbage",
    fault: () => ({ kind: "garbage" }),
    expected: { ...ODD, says: () => "outside its protocol" },
  },
  { title: "no server listens there", where: unusedAddress, expected: { ...DOWN, says: () => "127.0.0.1" } },
  {
    title: "a name that DNS does not know",
    // One character too long for a label: the resolver refuses it without a request, also without a network.
    where: async () => at(`http://${"no-such-host".padEnd(64, "x")}.invalid`),
    expected: { ...DOWN, says: () => "no-such-hostx" },
  },
  {
    title: "TLS: an untrusted certificate",
    where: async (turns) => await ModelServer.start(turns, 0, SELF_SIGNED),
    expected: { code: "UNAVAILABLE", retryable: false, says: () => /certificate/i },
  },
  {
    title: "TLS: a server that does not speak it",
    where: plain,
    expected: { code: "UNAVAILABLE", retryable: false, says: () => /http:/ },
  },
];

function at(url: string): Asked {
  return { url, [Symbol.asyncDispose]: async () => {} };
}

/** Redirects to a server that would answer, at another address: no request may come there. */
async function elsewhere(turns: Turn[]): Promise<Asked> {
  const other = await ModelServer.start(turns);
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: ({ url }) => {
      const { pathname } = new URL(url);
      requests.push(pathname);
      return Response.redirect(`${other.url}${pathname}#elsewhere`, 307);
    },
  });
  const requests: string[] = [];
  return {
    url: `http://127.0.0.1:${server.port}`,
    requests,
    [Symbol.asyncDispose]: async () => {
      await server.stop(true);
      const asked = other.requests.length;
      await other.stop();
      if (asked > 0) throw new Error(`the address that was named was asked ${asked} times`);
    },
  };
}

async function unusedAddress(): Promise<Asked> {
  const server = await ModelServer.start([]);
  await server.stop();
  return at(server.url);
}

async function plain(turns: Turn[]): Promise<Asked> {
  const server = await ModelServer.start(turns);
  return { url: server.url.replace("http:", "https:"), [Symbol.asyncDispose]: () => server.stop() };
}
