/** The `fetch` of a provider package: no time limit, no redirects, the user's proxy. */

import { SyscallError } from "rnix/plugin";
import { JsonDepth, MAX_LEVELS } from "../_lib/json.ts";
import { proxyFor } from "../_lib/proxy.ts";
import { errorDocument } from "./error-document.ts";
import { type Blame, redirected, reported, unreachable } from "./failure.ts";

/**
 * The `fetch` given to a provider package for one request. It has no time limit of its own and follows no redirect:
 * key and conversation go only to the address they were meant for. It turns into errors what packages do not handle:
 * an unreachable server, a web page, an error document instead of a stream, an answer too large or nested too deeply.
 * `onBytes` is called whenever a part of an answer has arrived. `env` is the run's environment, which may name a proxy.
 * `traceparent` becomes a header.
 */
export function requestFetch(
  streams: boolean,
  blame: Blame,
  env: Readonly<Record<string, string>>,
  onBytes: () => void,
  traceparent?: string,
): typeof fetch {
  const request = async (input: Input, given?: RequestInit): Promise<Response> => {
    const headers = traceparent === undefined ? undefined : new Headers(given?.headers);
    headers?.set("traceparent", traceparent ?? "");
    const init = headers ? { ...given, headers } : given;
    const response = bounded(await reach(input, init, blame, env), streams, blame, onBytes);
    const location = response.headers.get("location");
    if (response.status >= 300 && response.status < 400 && location !== null) {
      await response.body?.cancel();
      throw redirected(blame, response.status, location);
    }
    if (!response.ok) return response;
    const type = response.headers.get("content-type") ?? "";
    if (type.startsWith("text/html")) {
      await response.body?.cancel();
      throw new SyscallError(
        "DRIVER",
        `${blame.provider} at ${blame.url} answered with a web page. Check ${blame.urlVariable}`,
        { retryable: false },
      );
    }
    return type.startsWith("application/json") ? await inspected(response, streams, blame) : response;
  };
  return Object.assign(request, { preconnect: fetch.preconnect });
}

type Input = Parameters<typeof fetch>[0];

async function reach(
  input: Input,
  init: RequestInit | undefined,
  blame: Blame,
  env: Readonly<Record<string, string>>,
): Promise<Response> {
  const proxy = proxyFor(input instanceof Request ? input.url : String(input), env);
  const options: BunFetchRequestInit = {
    ...init,
    timeout: false,
    redirect: "manual",
    ...(proxy !== undefined && { proxy }),
  };
  try {
    return await fetch(input, options);
  } catch (error) {
    if (init?.signal?.aborted === true) throw error;
    throw unreachable(error, blame);
  }
}

const MB = 1024 ** 2;
/** The longest answers, with an event for each word, have about 80 MB. */
const MAX_STREAM = 256 * MB;
const MAX_DOCUMENT = 32 * MB;

/** The response, its body ended where it is too large or nested too deeply to be parsed. */
function bounded(response: Response, streams: boolean, blame: Blame, onBytes: () => void): Response {
  if (response.body === null) return response;
  const hasEvents = streams && response.ok;
  const maxBytes = hasEvents ? MAX_STREAM : MAX_DOCUMENT;
  const depth = new JsonDepth(hasEvents ? "events" : "one");
  let bytes = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw tooLarge(blame, maxBytes);
      if (depth.exceeds(chunk)) {
        if (response.ok) throw tooDeep(blame);
        // The status of a failed request says enough without its body.
        controller.terminate();
        return;
      }
      if (depth.bytes > MAX_DOCUMENT) throw tooLarge(blame, MAX_DOCUMENT);
      if (response.ok) onBytes();
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(counted), response);
}

function tooLarge({ provider, url }: Blame, max: number): SyscallError {
  const message = `${provider} at ${url} answered with more than ${max / MB} MB`;
  return new SyscallError("DRIVER", message, { retryable: false });
}

function tooDeep({ provider, url }: Blame): SyscallError {
  const message = `${provider} at ${url} answered with JSON nested more than ${MAX_LEVELS} levels deep`;
  return new SyscallError("DRIVER", message, { retryable: true });
}

/** An answer in one piece is checked for errors before the package reads it: packages handle those differently. */
async function inspected(response: Response, streams: boolean, blame: Blame): Promise<Response> {
  const body = await response.text();
  const document = errorDocument(body);
  if (document !== undefined) throw reported(document, blame);
  if (!streams) return new Response(body, response);
  throw new SyscallError(
    "DRIVER",
    `${blame.provider} at ${blame.url} was asked for a stream and answered in one piece that is not an error`,
    { retryable: true },
  );
}
