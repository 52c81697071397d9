/** Converts failures of HTTP providers to typed errors that say what to do. */

import {
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  TypeValidationError,
} from "@ai-sdk/provider";
import { SyscallError, type SyscallErrorDetail } from "rnix/plugin";
import { redirectError } from "../_lib/redirect-error.ts";
import { type ErrorDocument, errorDocument, errorObject } from "./error-document.ts";
import {
  DOWN,
  type FailureKind,
  INVALID_REQUEST,
  kindOfName,
  kindOfStatus,
  NO_CREDIT,
  REFUSED,
  TOO_LONG,
  UNKNOWN_MODEL,
} from "./failure-kind.ts";
import { waitsOf } from "./rate-limits.ts";

/** Who failed, and what the user can check. */
export interface Blame {
  /** "OpenAI", "Anthropic". */
  provider: string;
  keyVariable: string;
  urlVariable: string;
  url: string;
  model: string;
  /** Redacted in every message. */
  key: string;
}

/** Converts an error of a provider package or its stream to a typed error that says what to do. */
export function failure(error: unknown, blame: Blame): SyscallError {
  for (const one of causes(error)) if (one instanceof SyscallError) return one;
  if (APICallError.isInstance(error) && error.statusCode !== undefined && error.statusCode >= 400)
    return refused(error, blame);
  const inBody = APICallError.isInstance(error) ? errorDocument(error.responseBody) : errorObject(error);
  if (inBody !== undefined) return reported(inBody, blame);
  if (causes(error).some(isNetworkError)) return cutOff(blame, { cause: error });
  if (InvalidResponseDataError.isInstance(error) && error.data === undefined)
    return cutOff(blame, { cause: error });
  return garbage(blame, error);
}

/** The answer ended before it was complete; `why` is the provider's own word for it. */
export function cutOff(blame: Blame, { cause, why }: { cause?: unknown; why?: string } = {}): SyscallError {
  const reason = why === undefined || why === "" ? "" : ` (${shown(why, blame.key)})`;
  const message = `${blame.provider} broke off in the middle of its answer${reason}`;
  return new SyscallError("UNAVAILABLE", message, { cause: lean(cause), retryable: true });
}

/** An error document where an answer was expected: with status 200, or as an event of the stream. */
export function reported(document: ErrorDocument, blame: Blame): SyscallError {
  const status = Number(document.code);
  const kind =
    kindOfName(document.reason) ??
    kindOfName(document.code) ??
    (status >= 400 ? kindOfStatus(status) : undefined) ??
    kindOfName(document.type);
  const found = lengthOr(kind ?? { code: "DRIVER", retryable: true }, document.message);
  return describe(found, `reported: ${document.message}`, blame, waits(found, {}, document));
}

/** The server redirects. It is not followed: the key would go to the new address as well. */
export function redirected(blame: Blame, status: number, location: string): SyscallError {
  const server = `${blame.provider} at ${blame.url}`;
  return redirectError(server, status, shown(location, blame.key), blame.urlVariable);
}

export function unreachable(error: unknown, blame: Blame): SyscallError {
  const codes = causes(error).flatMap((one) => codeOf(one) ?? []);
  const [why = String(error)] = codes;
  const known = PERMANENT.find(({ code }) => codes.some((one) => code.test(one)));
  const advice = known?.advice ?? `Is it running and reachable from here? Check ${blame.urlVariable}`;
  const message = `cannot reach ${blame.provider} at ${blame.url} (${why}). ${advice}`;
  return new SyscallError("UNAVAILABLE", message, { cause: error, retryable: known === undefined });
}

/** Failures that a retry does not mend. */
const PERMANENT = [
  {
    code: /CERT|TLS|SELF_SIGNED|UNABLE_TO_VERIFY/,
    advice: "Its certificate was refused: check the address, or have the system trust it",
  },
  { code: /^EPROTO$/, advice: "It does not speak TLS there: does its address begin with http:?" },
];

/** What the user can do. */
function adviceFor(kind: FailureKind, blame: Blame): string | undefined {
  switch (kind) {
    case REFUSED:
      return `Check ${blame.keyVariable}`;
    case UNKNOWN_MODEL:
      return `Check the model's name, "${blame.model}" (rnix models lists them), and the address, ${blame.url} (${blame.urlVariable})`;
    case TOO_LONG:
      return "The conversation is longer than the model takes: choose a model with a larger window";
    case NO_CREDIT:
      return "The account has no credit left";
    default:
      return undefined;
  }
}

/** A conversation that is too long has no code at Anthropic, Google, Bedrock, xAI, vLLM and llama.cpp, only words. */
const LENGTH =
  /(?:prompt|input) is too long|context (?:length|size|window|limit)|maximum prompt length|input token count .*exceeds/i;

function lengthOr(kind: FailureKind, message: string): FailureKind {
  const isGeneral = kind === INVALID_REQUEST || (kind.code === "DRIVER" && kind.retryable);
  return isGeneral && LENGTH.test(message) ? TOO_LONG : kind;
}

function refused(error: APICallError, blame: Blame): SyscallError {
  const status = error.statusCode ?? 0;
  const document = errorDocument(error.responseBody);
  const named = kindOfName(document?.reason) ?? kindOfName(document?.code);
  // Some names say more than the status ("insufficient_quota"); the general ones say less.
  const isGeneral = named === undefined || named === DOWN || named === INVALID_REQUEST;
  const message = document?.message ?? error.message;
  const kind = lengthOr(isGeneral ? kindOfStatus(status) : named, message);
  const detail = waits(kind, error.responseHeaders ?? {}, document);
  return describe(kind, `answered ${status}: ${message}`, blame, detail);
}

/** Only a temporary failure has a time after which to retry. */
function waits(
  kind: FailureKind,
  headers: Record<string, string>,
  document?: ErrorDocument,
): SyscallErrorDetail {
  if (kind.code !== "EXHAUSTED" && kind.code !== "UNAVAILABLE") return {};
  const { retryAfterMs = document?.retryAfterMs, resetAtMs } = waitsOf(headers);
  return { retryAfterMs, resetAtMs };
}

function describe(kind: FailureKind, what: string, blame: Blame, detail: SyscallErrorDetail): SyscallError {
  const message = shown(`${blame.provider} ${what}`, blame.key).replace(/[.\s]+$/, "");
  const advice = adviceFor(kind, blame);
  const { code, retryable, tooLong } = kind;
  return new SyscallError(code, advice === undefined ? message : `${message}. ${advice}`, {
    ...detail,
    retryable,
    tooLong,
  });
}

function garbage(blame: Blame, error: unknown): SyscallError {
  const understood =
    APICallError.isInstance(error) ||
    JSONParseError.isInstance(error) ||
    TypeValidationError.isInstance(error);
  // Other errors of a package are for its authors; the text may still help.
  const detail = understood ? "" : ` (${shown(String(error), blame.key)})`;
  const message = `${blame.provider} at ${blame.url} answered something outside its protocol${detail}. If this repeats, check ${blame.urlVariable}`;
  return new SyscallError("DRIVER", message, { cause: lean(error), retryable: true });
}

const NETWORK = /^(E[A-Z]+|Connection[A-Z]\w*|FailedToOpenSocket|UND_ERR_\w+)$/;

function isNetworkError(error: unknown): boolean {
  const code = codeOf(error);
  return code !== undefined && NETWORK.test(code);
}

function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** The error and its causes, the outermost first. */
function causes(error: unknown): unknown[] {
  const chain: unknown[] = [];
  for (
    let one = error;
    one !== undefined && !chain.includes(one);
    one = one instanceof Error ? one.cause : undefined
  )
    chain.push(one);
  return chain;
}

/** The packages' errors hold the whole conversation; only their cause is worth keeping. */
function lean(error: unknown): unknown {
  return APICallError.isInstance(error) ? error.cause : error;
}

const LONGEST_MESSAGE = 600;

function shown(text: string, key: string): string {
  const clean = key === "" ? text : text.replaceAll(key, "…");
  return clean.length > LONGEST_MESSAGE ? `${clean.slice(0, LONGEST_MESSAGE)}…` : clean;
}
