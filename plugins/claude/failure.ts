import { type Code, SyscallError } from "rnix/plugin";

/** What the CLI says of a request that failed, in its own words and those of the API. */
export interface Failure {
  /** `error` of the message that stands for the answer. */
  kind: string | undefined;
  status: number | undefined;
  /** Of the API's error document. */
  type: string | undefined;
  /** Why the run ended. */
  reason: string;
  text: string;
  resetAtMs: number | undefined;
}

interface Kind {
  code: Code;
  retryable: boolean;
  tooLong?: true;
  advice?: string;
}

const LOGIN =
  "Log in (`claude`, then /login; or `claude setup-token`), or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN";
const REFUSED: Kind = { code: "PERMISSION", retryable: false, advice: LOGIN };
const UNPAID: Kind = { code: "EXHAUSTED", retryable: false };
const LIMITED: Kind = { code: "EXHAUSTED", retryable: true };
const UNKNOWN: Kind = { code: "NOT_FOUND", retryable: false, advice: "Check the model's name" };
const WRONG: Kind = { code: "INVALID", retryable: false };
const TOO_LONG: Kind = { code: "INVALID", retryable: false, tooLong: true };
const DOWN: Kind = { code: "UNAVAILABLE", retryable: true };
const BROKEN: Kind = { code: "DRIVER", retryable: true };

const REASONS: Readonly<Record<string, Kind>> = {
  prompt_too_long: TOO_LONG,
  // It was the kernel that gave it no more: it looks itself what is left.
  max_turns: LIMITED,
  error_max_turns: LIMITED,
};

/** By the API's error type, then by the CLI's own word. */
const KINDS: Readonly<Record<string, Kind>> = {
  authentication_error: REFUSED,
  permission_error: REFUSED,
  billing_error: UNPAID,
  rate_limit_error: LIMITED,
  not_found_error: UNKNOWN,
  overloaded_error: DOWN,
  api_error: DOWN,
  timeout_error: DOWN,
  request_too_large: TOO_LONG,
  authentication_failed: REFUSED,
  oauth_org_not_allowed: REFUSED,
  rate_limit: LIMITED,
  model_not_found: UNKNOWN,
  server_error: DOWN,
  overloaded: DOWN,
  invalid_request_error: WRONG,
  invalid_request: WRONG,
};

/** As a typed error that says what to do. */
export function failureOf({ kind, status, type, reason, text, resetAtMs }: Failure): SyscallError {
  const found =
    known(REASONS, reason) ?? known(KINDS, type) ?? byStatus(status) ?? known(KINDS, kind) ?? BROKEN;
  const { code, retryable, tooLong, advice } = found;
  const message = `claude: ${text.trim().replace(/\.$/, "")}${advice === undefined ? "" : `. ${advice}`}`;
  return new SyscallError(code, message, {
    retryable,
    ...(tooLong && { tooLong }),
    ...(code === "EXHAUSTED" && resetAtMs !== undefined && { resetAtMs }),
  });
}

function known(table: Readonly<Record<string, Kind>>, name: string | undefined): Kind | undefined {
  return name !== undefined && Object.hasOwn(table, name) ? table[name] : undefined;
}

function byStatus(status: number | undefined): Kind | undefined {
  if (status === undefined) return undefined;
  if (status === 401 || status === 403) return REFUSED;
  if (status === 402) return UNPAID;
  if (status === 404) return UNKNOWN;
  if (status === 413) return TOO_LONG;
  if (status === 429) return LIMITED;
  return status === 408 || status >= 500 ? DOWN : WRONG;
}
