import {
  APICallError,
  InvalidResponseDataError,
  JSONParseError,
  TypeValidationError,
} from "@ai-sdk/provider";
import { type Code, SyscallError, type SyscallErrorDetail } from "rnix/plugin";
import { type ErrorDocument, errorDocument, errorObject } from "./error-document.ts";
import { waitsOf } from "./rate-limits.ts";

/** Whose failure it is, and what a person would look at. */
export interface Blame {
  /** "OpenAI", "Anthropic": who answered. */
  provider: string;
  keyVariable: string;
  urlVariable: string;
  url: string;
  model: string;
  /** Never shown, wherever it turns up. */
  key: string;
}

/** Whatever a provider package throws or puts into its stream, as a typed error that says what to do. */
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

/** The answer ended before it was finished; `why` is the provider's own word for it. */
export function cutOff(blame: Blame, { cause, why }: { cause?: unknown; why?: string } = {}): SyscallError {
  const said = why === undefined || why === "" ? "" : ` (${shown(why, blame.key)})`;
  const message = `${blame.provider} broke off in the middle of its answer${said}`;
  return new SyscallError("UNAVAILABLE", message, { cause: lean(cause), retryable: true });
}

/** An error document in a place where an answer was expected: status 200, or an event of the stream. */
export function reported(document: ErrorDocument, blame: Blame): SyscallError {
  const status = Number(document.code);
  const kind =
    kindOf(document.reason) ??
    kindOf(document.code) ??
    (status >= 400 ? kindOfStatus(status) : undefined) ??
    kindOf(document.type);
  const found = lengthOr(kind ?? { code: "DRIVER", retryable: true }, document.message);
  return describe(found, `reported: ${document.message}`, blame, waits(found, {}, document));
}

/** It answers somewhere else. Who asks has to say so themselves: the key would go there as well. */
export function moved(blame: Blame, status: number, to: string): SyscallError {
  const message = `${blame.provider} at ${blame.url} answered ${status}: ask at ${JSON.stringify(to)}. It was not asked there; if that is right, set ${blame.urlVariable}`;
  return new SyscallError("UNAVAILABLE", shown(message, blame.key), { retryable: false });
}

export function unreachable(error: unknown, blame: Blame): SyscallError {
  const codes = causes(error).flatMap((one) => codeOf(one) ?? []);
  const [why = String(error)] = codes;
  const known = LASTING.find(({ code }) => codes.some((one) => code.test(one)));
  const advice = known?.advice ?? `Is it running and reachable from here? Check ${blame.urlVariable}`;
  return new SyscallError(
    "UNAVAILABLE",
    `cannot reach ${blame.provider} at ${blame.url} (${why}). ${advice}`,
    { cause: error, retryable: known === undefined },
  );
}

/** What no further attempt mends. */
const LASTING = [
  {
    code: /CERT|TLS|SELF_SIGNED|UNABLE_TO_VERIFY/,
    advice: "Its certificate was refused: check the address, or have the system trust it",
  },
  { code: /^EPROTO$/, advice: "It does not speak TLS there: does its address begin with http:?" },
];

interface Kind {
  code: Code;
  retryable: boolean;
  advice?: (blame: Blame) => string;
}

const asKey = (blame: Blame) =>
  `Check ${blame.keyVariable}, or the variable that api_key_env names in the provider's entry`;
const asModel = (blame: Blame) =>
  `Check the model's name, "${blame.model}", and the address, ${blame.url} (${blame.urlVariable})`;
const asLength = () => "The conversation is longer than the model takes: choose a model with a larger window";

const REFUSED: Kind = { code: "PERMISSION", retryable: false, advice: asKey };
const UNKNOWN: Kind = { code: "NOT_FOUND", retryable: false, advice: asModel };
const WRONG: Kind = { code: "INVALID", retryable: false };
const TOO_LONG: Kind = { code: "INVALID", retryable: false, advice: asLength };
const LIMITED: Kind = { code: "EXHAUSTED", retryable: true };
const UNPAID: Kind = { code: "EXHAUSTED", retryable: false, advice: () => "The account has no credit left" };
const DOWN: Kind = { code: "UNAVAILABLE", retryable: true };

/** The providers' own names for errors. */
const KINDS: Record<string, Kind> = {
  invalid_api_key: REFUSED,
  authentication_error: REFUSED,
  permission_error: REFUSED,
  model_not_found: UNKNOWN,
  not_found_error: UNKNOWN,
  context_length_exceeded: TOO_LONG,
  request_too_large: TOO_LONG,
  invalid_request_error: WRONG,
  invalid_prompt: WRONG,
  rate_limit_exceeded: LIMITED,
  rate_limit_error: LIMITED,
  insufficient_quota: UNPAID,
  billing_error: UNPAID,
  billing_hard_limit_reached: UNPAID,
  overloaded_error: DOWN,
  api_error: DOWN,
  server_error: DOWN,
  internal_server_error: DOWN,
  timeout_error: DOWN,
  API_KEY_INVALID: REFUSED,
  UNAUTHENTICATED: REFUSED,
  PERMISSION_DENIED: REFUSED,
  NOT_FOUND: UNKNOWN,
  INVALID_ARGUMENT: WRONG,
  RESOURCE_EXHAUSTED: LIMITED,
  INTERNAL: DOWN,
  UNAVAILABLE: DOWN,
};

function kindOf(name: string | undefined): Kind | undefined {
  return name !== undefined && Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
}

/** Some have no code for it, and say it in words alone: Anthropic, Google, Bedrock, xAI, vLLM, llama.cpp. */
const LENGTH =
  /(?:prompt|input) is too long|context (?:length|size|window|limit)|maximum prompt length|input token count .*exceeds/i;

function lengthOr(kind: Kind, message: string): Kind {
  const unsaid = kind === WRONG || (kind.code === "DRIVER" && kind.retryable);
  return unsaid && LENGTH.test(message) ? TOO_LONG : kind;
}

function kindOfStatus(status: number): Kind {
  if (status === 401 || status === 403) return REFUSED;
  if (status === 402) return UNPAID;
  if (status === 404) return UNKNOWN;
  if (status === 413) return TOO_LONG;
  if (status === 429) return LIMITED;
  if (status === 408 || status === 409 || status >= 500) return DOWN;
  return WRONG;
}

function refused(error: APICallError, blame: Blame): SyscallError {
  const status = error.statusCode ?? 0;
  const document = errorDocument(error.responseBody);
  const named = kindOf(document?.reason) ?? kindOf(document?.code);
  // Some codes say more than the status ("insufficient_quota"); the general ones say less.
  const theirs = document?.message ?? error.message;
  const told = named === undefined || named === DOWN || named === WRONG ? kindOfStatus(status) : named;
  const kind = lengthOr(told, theirs);
  const detail = waits(kind, error.responseHeaders ?? {}, document);
  return describe(kind, `answered ${status}: ${theirs}`, blame, detail);
}

/** Only a failure that passes has a time after which to come back. */
function waits(kind: Kind, headers: Record<string, string>, document?: ErrorDocument): SyscallErrorDetail {
  if (kind.code !== "EXHAUSTED" && kind.code !== "UNAVAILABLE") return {};
  const { retryAfterMs = document?.retryAfterMs, resetAtMs } = waitsOf(headers);
  return { retryAfterMs, resetAtMs };
}

function describe(kind: Kind, what: string, blame: Blame, detail: SyscallErrorDetail): SyscallError {
  const told = shown(`${blame.provider} ${what}`, blame.key).replace(/[.\s]+$/, "");
  const advice = kind.advice === undefined ? "" : `. ${kind.advice(blame)}`;
  const tooLong = kind === TOO_LONG || undefined;
  return new SyscallError(kind.code, told + advice, { ...detail, retryable: kind.retryable, tooLong });
}

function garbage(blame: Blame, error: unknown): SyscallError {
  const understood =
    APICallError.isInstance(error) ||
    JSONParseError.isInstance(error) ||
    TypeValidationError.isInstance(error);
  // What a package says of it beside its own errors is meant for who wrote the package: it may help, and says no more.
  const detail = understood ? "" : ` (${shown(String(error), blame.key)})`;
  return new SyscallError(
    "DRIVER",
    `${blame.provider} at ${blame.url} answered something that is not of its protocol${detail}. If it goes on, check ${blame.urlVariable}`,
    { cause: lean(error), retryable: true },
  );
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

/** The packages' errors carry the whole conversation; only what lies below them is worth keeping. */
function lean(error: unknown): unknown {
  return APICallError.isInstance(error) ? error.cause : error;
}

const LONGEST_MESSAGE = 600;

function shown(text: string, key: string): string {
  const clean = key === "" ? text : text.replaceAll(key, "…");
  return clean.length > LONGEST_MESSAGE ? `${clean.slice(0, LONGEST_MESSAGE)}…` : clean;
}
