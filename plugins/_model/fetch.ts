import { SyscallError } from "rnix/plugin";
import { errorDocument } from "./error-document.ts";
import { EventJsonDepth } from "./event-json-depth.ts";
import { type Blame, moved, reported, unreachable } from "./failure.ts";
import { isTooDeep, MAX_DOCUMENT_BYTES } from "./json-depth.ts";

/**
 * The `fetch` given to a provider package for one request: without a time limit of its own, and with what
 * the packages do not look at put right: a server that is not there, a web page, an error document where a
 * stream was asked for, an answer without end. It follows nobody elsewhere: key and conversation go to the address
 * that they were meant for. `heard` is told whenever some of a stream has come.
 */
export function requestFetch(streams: boolean, blame: Blame, heard: () => void): typeof fetch {
  const request = async (input: Input, init?: RequestInit): Promise<Response> => {
    const response = bounded(await reach(input, init, blame), streams, blame, heard);
    const elsewhere = response.headers.get("location");
    if (response.status >= 300 && response.status < 400 && elsewhere !== null) {
      await response.body?.cancel();
      throw moved(blame, response.status, elsewhere);
    }
    if (!response.ok) return await withoutDepths(response);
    const type = response.headers.get("content-type") ?? "";
    if (type.startsWith("text/html")) {
      await response.body?.cancel();
      throw new SyscallError(
        "DRIVER",
        `${blame.provider} at ${blame.url} answered a web page. Check ${blame.urlVariable}`,
        { retryable: false },
      );
    }
    return type.startsWith("application/json") ? await inspected(response, streams, blame) : response;
  };
  return Object.assign(request, { preconnect: fetch.preconnect });
}

type Input = Parameters<typeof fetch>[0];

async function reach(input: Input, init: RequestInit | undefined, blame: Blame): Promise<Response> {
  const options: BunFetchRequestInit = { ...init, timeout: false, redirect: "manual" };
  try {
    return await fetch(input, options);
  } catch (error) {
    if (init?.signal?.aborted === true) throw error;
    throw unreachable(error, blame);
  }
}

const MB = 1024 ** 2;
/** The longest answers there are, with each of their words as an event of its own, have some 80 MB. */
const LARGEST_STREAM = 256 * MB;
const LARGEST_PIECE = 32 * MB;

function bounded(response: Response, streams: boolean, blame: Blame, heard: () => void): Response {
  if (response.body === null) return response;
  const largest = streams && response.ok ? LARGEST_STREAM : LARGEST_PIECE;
  const events = streams && response.ok ? new EventJsonDepth() : undefined;
  let bytes = 0;
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      bytes += chunk.byteLength;
      if (bytes > largest) throw endless(blame, largest);
      if (events?.isTooDeep(chunk)) throw tooDeep(blame);
      if (events && events.held > LARGEST_PIECE) throw endless(blame, LARGEST_PIECE);
      if (response.ok) heard();
      controller.enqueue(chunk);
    },
    flush() {
      if (events?.endsTooDeep()) throw tooDeep(blame);
    },
  });
  return new Response(response.body.pipeThrough(counted), response);
}

function endless({ provider, url }: Blame, largest: number): SyscallError {
  const message = `${provider} at ${url} answered more than ${largest / MB} MB`;
  return new SyscallError("DRIVER", message, { retryable: false });
}

function tooDeep({ provider, url }: Blame): SyscallError {
  const message = `${provider} at ${url} answered what is nested more than ${MAX_DOCUMENT_BYTES} levels deep`;
  return new SyscallError("DRIVER", message, { retryable: true });
}

/** An error that is nested without end says no more than its status: a package would take seconds to find that out. */
async function withoutDepths(response: Response): Promise<Response> {
  const body = await response.text();
  return new Response(isTooDeep(body, MAX_DOCUMENT_BYTES) ? "" : body, response);
}

/** An answer in one piece is looked at before the package sees it: packages take errors in it differently. */
async function inspected(response: Response, streams: boolean, blame: Blame): Promise<Response> {
  const body = await response.text();
  if (isTooDeep(body, MAX_DOCUMENT_BYTES)) throw tooDeep(blame);
  const document = errorDocument(body);
  if (document !== undefined) throw reported(document, blame);
  if (!streams) return new Response(body, response);
  throw new SyscallError(
    "DRIVER",
    `${blame.provider} at ${blame.url} was asked for a stream and answered in one piece that is no error`,
    { retryable: true },
  );
}
