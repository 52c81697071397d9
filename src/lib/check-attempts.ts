/** Reads the results of checks that ran in several attempts. */

/** The result of one check in one attempt. All checks of an attempt have its number; absent: 1. */
interface AttemptResult {
  exit_code: number | null;
  attempt?: number;
}

/** The number of the last attempt; 0 when there was none. */
export function attemptsOf(checks: readonly AttemptResult[]): number {
  const last = checks.at(-1);
  return last ? (last.attempt ?? 1) : 0;
}

/** The results of the last attempt, which decides. */
export function lastAttempt<T extends AttemptResult>(checks: readonly T[]): T[] {
  const last = attemptsOf(checks);
  return checks.filter(({ attempt = 1 }) => attempt === last);
}

/** The check that failed in the last attempt, if one did. */
export function failedCheck<T extends AttemptResult>(checks: readonly T[]): T | undefined {
  return lastAttempt(checks).find(({ exit_code }) => exit_code !== 0);
}

export function failedAttempts(checks: readonly AttemptResult[]): number {
  return new Set(checks.filter(({ exit_code }) => exit_code !== 0).map(({ attempt = 1 }) => attempt)).size;
}
