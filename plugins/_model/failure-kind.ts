/** The kinds of provider failures, by the provider's error name or HTTP status. */

import type { Code } from "rnix/plugin";

/** What a provider's failure means for the caller. */
export interface FailureKind {
  code: Code;
  retryable: boolean;
  tooLong?: true;
}

export const REFUSED: FailureKind = { code: "PERMISSION", retryable: false };
export const UNKNOWN_MODEL: FailureKind = { code: "NOT_FOUND", retryable: false };
export const INVALID_REQUEST: FailureKind = { code: "INVALID", retryable: false };
export const TOO_LONG: FailureKind = { code: "INVALID", retryable: false, tooLong: true };
export const RATE_LIMITED: FailureKind = { code: "EXHAUSTED", retryable: true };
export const NO_CREDIT: FailureKind = { code: "EXHAUSTED", retryable: false };
export const DOWN: FailureKind = { code: "UNAVAILABLE", retryable: true };

/** The names that providers and their command line programs give to errors. */
const KINDS: Readonly<Record<string, FailureKind>> = {
  invalid_api_key: REFUSED,
  authentication_error: REFUSED,
  authentication_failed: REFUSED,
  permission_error: REFUSED,
  oauth_org_not_allowed: REFUSED,
  model_not_found: UNKNOWN_MODEL,
  not_found_error: UNKNOWN_MODEL,
  context_length_exceeded: TOO_LONG,
  request_too_large: TOO_LONG,
  invalid_request_error: INVALID_REQUEST,
  invalid_request: INVALID_REQUEST,
  invalid_prompt: INVALID_REQUEST,
  rate_limit_exceeded: RATE_LIMITED,
  rate_limit_error: RATE_LIMITED,
  rate_limit: RATE_LIMITED,
  insufficient_quota: NO_CREDIT,
  billing_error: NO_CREDIT,
  billing_hard_limit_reached: NO_CREDIT,
  overloaded_error: DOWN,
  overloaded: DOWN,
  api_error: DOWN,
  server_error: DOWN,
  internal_server_error: DOWN,
  timeout_error: DOWN,
  // Google's.
  API_KEY_INVALID: REFUSED,
  UNAUTHENTICATED: REFUSED,
  PERMISSION_DENIED: REFUSED,
  NOT_FOUND: UNKNOWN_MODEL,
  INVALID_ARGUMENT: INVALID_REQUEST,
  RESOURCE_EXHAUSTED: RATE_LIMITED,
  INTERNAL: DOWN,
  UNAVAILABLE: DOWN,
};

export function kindOfName(name: string | undefined): FailureKind | undefined {
  return name !== undefined && Object.hasOwn(KINDS, name) ? KINDS[name] : undefined;
}

export function kindOfStatus(status: number): FailureKind {
  if (status === 401 || status === 403) return REFUSED;
  if (status === 402) return NO_CREDIT;
  if (status === 404) return UNKNOWN_MODEL;
  if (status === 413) return TOO_LONG;
  if (status === 429) return RATE_LIMITED;
  if (status === 408 || status === 409 || status >= 500) return DOWN;
  return INVALID_REQUEST;
}
