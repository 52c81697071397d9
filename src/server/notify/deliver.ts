/** Delivers the answer of a job's run to a command, an address or a file. */

import { chmodSync, existsSync, lstatSync, mkdirSync, realpathSync, renameSync, statSync } from "node:fs";
import { appendFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type DeliveryTarget, deliveryTarget } from "../../lib/delivery-target.ts";
import { isWithin } from "../../lib/inner-path.ts";
import { type JobInfo, type LedgerRow, SyscallError } from "../../plugin/index.ts";
import { replaceDocument } from "../../store/files/document.ts";
import { type SendPorts, sendTo } from "./send.ts";

/** Fields of the ledger's row that the receiver gets. */
type OfRow = "due" | "state" | "reason" | "uuid" | "attempt" | OfRun;
type OfRun = "started" | "ended" | "exit_code" | "exit_reason" | "tokens_used" | "cost_usd";

/** What was answered, and by which run of which job. Documented in docs/unattended.md. */
interface Delivery extends Pick<LedgerRow, OfRow> {
  event: "answer";
  job: string;
  project: string;
  /** The whole answer, with secrets redacted; null without one. */
  result: string | null;
}

interface DeliverPorts extends SendPorts {
  /** The folder of a command. Absolute. */
  cwd: string;
  /** The whole answer of a run; null without one. */
  resultOf(uuid: string): Promise<string | null>;
  closing: AbortSignal;
}

/** Answers may be private. */
const NEW_FILE = 0o600;

/** One attempt. Fails when it was not accepted. */
export async function deliver(
  job: Pick<JobInfo, "name" | "project">,
  row: LedgerRow,
  to: string,
  ports: DeliverPorts,
): Promise<void> {
  const delivery = await deliveryOf(job, row, ports);
  const target = targetOf(to);
  if (target.kind === "file") {
    requireInside(target.path, job.project);
    await intoFile(target, textOf(delivery));
    return;
  }
  const receiver = { target: to, cwd: ports.cwd, env: variables(delivery) };
  await sendTo(receiver, JSON.stringify(delivery), ports, ports.closing);
}

/** The bare path of a file that is no program means the file, too. */
function targetOf(to: string): DeliveryTarget {
  const target = deliveryTarget(to);
  if (target.kind !== "command" || !/^\/\S*$/.test(to)) return target;
  const mode = statSync(to, { throwIfNoEntry: false })?.mode ?? 0;
  return (mode & 0o111) === 0 ? { kind: "file", path: to, append: false } : target;
}

async function deliveryOf(
  { name, project }: Pick<JobInfo, "name" | "project">,
  row: LedgerRow,
  { resultOf }: DeliverPorts,
): Promise<Delivery> {
  const { due, state, reason, uuid, started, ended, exit_code, exit_reason, tokens_used, cost_usd, attempt } =
    row;
  const whole = uuid === null ? null : await resultOf(uuid);
  return {
    event: "answer",
    job: name,
    project,
    due,
    state,
    reason,
    uuid,
    started,
    ended,
    exit_code,
    exit_reason,
    tokens_used,
    cost_usd,
    attempt,
    // A conversation may have answered again since.
    result: whole?.startsWith(row.result ?? "") ? whole : (row.result ?? null),
  };
}

function variables({ job, project, due, state, uuid, exit_code }: Delivery): Record<string, string> {
  return {
    RNIX_JOB: job,
    RNIX_JOB_PROJECT: project,
    RNIX_JOB_DUE: due,
    RNIX_JOB_STATE: state,
    RNIX_JOB_RUN: uuid ?? "",
    RNIX_JOB_EXIT_CODE: exit_code === null ? "" : String(exit_code),
  };
}

/** What a file gets: the answer, or why there is none. */
function textOf({ job, due, state, reason, exit_reason, result }: Delivery): string {
  const text =
    result?.trimEnd() || `${job}, ${due}: ${state}: ${reason ?? exit_reason ?? "without an answer"}`;
  return state === "ran" || result === null
    ? `${text}\n`
    : `${job}, ${due}: ${state}: ${reason ?? exit_reason}\n\n${text}\n`;
}

async function intoFile({ path, append }: { path: string; append: boolean }, text: string): Promise<void> {
  mkdirSync(dirname(path), { recursive: true });
  const found = lstatSync(path, { throwIfNoEntry: false });
  // A link stays a link: the file that it names is written.
  const file = found?.isSymbolicLink() ? realpathSync(path) : path;
  const stats = found && lstatSync(file, { throwIfNoEntry: false });
  if (stats && !stats.isFile()) {
    const message = `expected a file to write the answer to, got something else at ${path}`;
    throw new SyscallError("INVALID", message);
  }
  if (append) {
    await appendFile(file, text, { mode: NEW_FILE, flush: true });
    return;
  }
  await replaceDocument(file, text, undefined, (temporary) => {
    // The file keeps its permissions, because other users may read it.
    if (stats) chmodSync(temporary, stats.mode & 0o777);
    renameSync(temporary, file);
  });
}

/**
 * Fails with INVALID for a path in the project that leads out of it by a link: the project may have brought the link, and
 * the answer would replace a file such as a shell's start file. Links elsewhere are the user's.
 */
export function requireInside(path: string, project: string): void {
  const root = realpathSync(project);
  if (!isWithin(project, path) && !isWithin(root, path)) return;
  const real = realOf(path);
  if (real !== null && isWithin(root, real)) return;
  const message = `${path} leads out of the project by a link: name the file that it leads to, or remove the link`;
  throw new SyscallError("INVALID", message);
}

/** The real path of a file that may be missing, as may its folders; null for a link that leads to nothing. */
function realOf(path: string): string | null {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found?.isSymbolicLink() && !existsSync(path)) return null;
  if (found) return realpathSync(path);
  const folder = realOf(dirname(path));
  return folder === null ? null : join(folder, basename(path));
}
