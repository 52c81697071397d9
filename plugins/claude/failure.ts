/** Translates failures of the Claude Code CLI into errors of a model device. */

import { SyscallError } from "rnix/plugin";
import {
  type FailureKind,
  kindOfName,
  kindOfStatus,
  RATE_LIMITED,
  REFUSED,
  TOO_LONG,
  UNKNOWN_MODEL,
} from "../_model/failure-kind.ts";

/** What the CLI prints about a request that failed. */
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

const REASONS: Readonly<Record<string, FailureKind>> = {
  prompt_too_long: TOO_LONG,
  // The kernel set this limit, and checks itself what is left.
  max_turns: RATE_LIMITED,
  error_max_turns: RATE_LIMITED,
};

const UNEXPLAINED: FailureKind = { code: "DRIVER", retryable: true };

const ADVICE: ReadonlyMap<FailureKind, string> = new Map([
  [
    REFUSED,
    "Log in (`claude`, then /login; or `claude setup-token`), or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN",
  ],
  [UNKNOWN_MODEL, "Check the model's name"],
]);

/** The CLI's failure as a typed error that says what to do. The API's words count before the CLI's own. */
export function failureOf({ kind, status, type, reason, text, resetAtMs }: Failure): SyscallError {
  const found =
    (Object.hasOwn(REASONS, reason) ? REASONS[reason] : undefined) ??
    kindOfName(type) ??
    (status === undefined ? undefined : kindOfStatus(status)) ??
    kindOfName(kind) ??
    UNEXPLAINED;
  const { code, retryable, tooLong } = found;
  const advice = ADVICE.get(found);
  const message = `claude: ${text.trim().replace(/\.$/, "")}${advice === undefined ? "" : `. ${advice}`}`;
  return new SyscallError(code, message, {
    retryable,
    ...(tooLong && { tooLong }),
    ...(code === "EXHAUSTED" && resetAtMs !== undefined && { resetAtMs }),
  });
}
