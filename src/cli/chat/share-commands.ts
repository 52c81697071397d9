/** The commands /copy and /export, which take a conversation out of the terminal. */

import { existsSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { runForInput } from "../../os/user-programs.ts";
import { redactSecrets } from "../../plugin/index.ts";
import { usageError } from "../exit.ts";
import { callLine } from "../output/call-text.ts";
import { oneLine, plural } from "../output/format.ts";
import type { LogEntry } from "../transcript/transcript.ts";
import type { ChatActions } from "./actions.ts";
import { YES_NO } from "./picker.ts";

const CLIPBOARD_MS = 3000;
/** Terminals take no longer text for their clipboard. */
const MAX_OSC_BYTES = 74_000;
const CALL_WIDTH = 200;
/** Shorter values of variables are no secrets. */
const MIN_SECRET = 8;
const SECRET_NAME = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL/i;

/** Copies the last answer, by the system's program and by the terminal, which also works over SSH. */
export async function copy(chat: ChatActions): Promise<void> {
  let answer = "";
  const take = ({ kind, text }: LogEntry): void => {
    if (kind === "text" && text.trim() !== "") answer = text.trim();
  };
  if (chat.uuid !== null) await chat.link.log(chat.uuid, take);
  if (answer === "") throw usageError("there is no answer to copy yet");
  const { env, cwd, stderr } = chat.io;
  const size = Buffer.byteLength(answer);
  const byTerminal = size <= MAX_OSC_BYTES;
  if (byTerminal) stderr.writeBytes(Buffer.from(`\x1b]52;c;${Buffer.from(answer).toString("base64")}\x07`));
  let byProgram = false;
  for (const argv of writers(env))
    byProgram ||= await runForInput(argv, { cwd, env, timeoutMs: CLIPBOARD_MS, input: answer });
  if (!byTerminal && !byProgram)
    throw usageError(`the answer has ${size} bytes, too many for the terminal's clipboard: /export`);
  chat.print(`copied the last answer: ${plural(answer.split("\n").length, "line")}`);
}

function writers(env: ChatActions["io"]["env"]): string[][] {
  if (process.platform === "darwin") return [["pbcopy"]];
  return [
    ...(env.WAYLAND_DISPLAY ? [["wl-copy"]] : []),
    ...(env.DISPLAY ? [["xclip", "-selection", "clipboard", "-in"]] : []),
  ];
}

/** Writes the conversation to a file: Markdown, or one HTML file without scripts and without links to other files. */
export async function exportTo(chat: ChatActions, args: string): Promise<void> {
  const { uuid } = chat;
  if (uuid === null) throw usageError("there is no conversation to export yet");
  const name = args.replace(/^(["'])(.*)\1$/, "$2") || `conversation-${uuid}.md`;
  const file = resolve(chat.options.cwd ?? chat.io.cwd, name);
  if (existsSync(file) && (await chat.pick(`${name} exists. Overwrite it?`, YES_NO)) !== true) return;
  const { intent, agent, provider, model, created_at_ms } = await chat.link.request("show", { uuid });
  const title = oneLine(chat.names.load().get(uuid) ?? intent, CALL_WIDTH);
  const parts = [
    `# ${title}`,
    `${agent}, ${provider}/${model}, ${new Date(created_at_ms).toISOString()}, run ${uuid}`,
  ];
  await chat.link.log(uuid, (entry) => parts.push(...markdownOf(entry)));
  const text = withoutSecrets(`${parts.join("\n\n")}\n`, chat.options.env ?? chat.io.env);
  writeFileSync(file, /\.html?$/i.test(file) ? htmlOf(title, text) : text, { mode: 0o600 });
  chat.print(`exported to ${file}\nknown formats of secrets are redacted; read it before you share it`);
}

/** The parts of an entry. A call stands with its result. */
function markdownOf({ kind, text, call }: LogEntry): string[] {
  if (text.trim() === "") return [];
  if (kind === "inbox") return ["## You", text.trim().replace(/^/gm, "> ")];
  if (kind === "text") return ["## Answer", text.trim()];
  if (kind !== "result" || call === undefined) return [];
  const line = callLine(call.name, call.input, CALL_WIDTH).replaceAll("`", "'");
  return [`\`${line}\``, fenced(call.error ?? call.result ?? "")];
}

/** In a fence that the text itself does not close. */
function fenced(text: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([marks]) => marks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}\n${text.trim()}\n${fence}`;
}

/** Keys of providers are redacted in the record itself. */
function withoutSecrets(text: string, env: Record<string, string | undefined>): string {
  const values = Object.entries(env).flatMap(([name, value = ""]) =>
    SECRET_NAME.test(name) && value.length >= MIN_SECRET ? [{ name, value }] : [],
  );
  const known = values.reduce((left, { name, value }) => left.replaceAll(value, () => `[${name}]`), text);
  return redactSecrets(known);
}

/** The policy keeps a page of a model's words from running or loading anything. */
function htmlOf(title: string, markdown: string): string {
  const body = Bun.markdown.html(markdown, { noHtmlBlocks: true, noHtmlSpans: true, tables: true });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>${Bun.escapeHTML(title)}</title>
<style>
body { max-width: 50rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
pre { overflow: auto; max-height: 30rem; padding: .5rem; background: #8881; }
blockquote { margin: 0; padding-left: 1rem; border-left: .25rem solid #888; }
td, th { padding: .1rem .6rem; border: 1px solid #8884; }
table { border-collapse: collapse; }
</style>
</head>
<body>
${body}</body>
</html>
`;
}
