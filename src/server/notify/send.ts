/** Sends one text to a command, on its stdin, or to an address, by POST. */

import { type ProgramPorts, runShortProgram, shell } from "../../os/short-program.ts";
import { SyscallError } from "../../plugin/index.ts";

/** A shell command, which reads the text on stdin, or an address. */
export interface Receiver {
  target: string;
  /** The folder of the command. Absolute. */
  cwd: string;
  /** Variables of the command, beside those of the ports. */
  env?: Readonly<Record<string, string>>;
}

export interface SendPorts extends ProgramPorts {
  env: Record<string, string>;
}

const COMMAND_MS = 30_000;
const POST_MS = 10_000;
/** Characters of its output that are part of the error. */
const MAX_SHOWN = 200;

/** One attempt. Fails with UNAVAILABLE unless the address answers 2xx or the command exits with 0, within its time. */
export async function sendTo(
  receiver: Receiver,
  body: string,
  ports: SendPorts,
  closing: AbortSignal,
): Promise<void> {
  if (/^https?:\/\//i.test(receiver.target)) await post(receiver.target, body, closing);
  else await run(receiver, body, ports, closing);
}

async function post(url: string, body: string, closing: AbortSignal): Promise<void> {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
    // An address that redirects may send the text to another place.
    redirect: "manual",
    signal: AbortSignal.any([closing, AbortSignal.timeout(POST_MS)]),
  });
  await answer.body?.cancel();
  if (!answer.ok) throw new SyscallError("UNAVAILABLE", `it answered ${answer.status}`);
}

async function run(
  { target, cwd, env: own }: Receiver,
  body: string,
  { env, ...ports }: SendPorts,
  closing: AbortSignal,
): Promise<void> {
  const { code, signal, timedOut, stdout, stderr } = await runShortProgram(ports, "notify", {
    argv: shell(target),
    cwd,
    env: { ...env, ...own },
    stdin: body,
    timeoutMs: COMMAND_MS,
    maxChars: MAX_SHOWN,
    signal: closing,
  });
  if (code === 0) return;
  const how = timedOut ? "did not end in time" : `ended with ${code ?? signal}`;
  const shown = `${stderr}${stdout}`.trim().slice(0, MAX_SHOWN);
  throw new SyscallError("UNAVAILABLE", `it ${how}${shown === "" ? "" : `: ${shown}`}`);
}
