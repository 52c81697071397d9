/** A run as one self-contained HTML file to pass on: secrets are redacted, nothing is loaded. */

import { didTitle, firstLine } from "../../lib/call-title.ts";
import { redactSecrets } from "../../plugin/secrets.ts";
import type { Receipt, RunDiff } from "../../protocol/methods.ts";
import type { StepRecord } from "../../store/runs/schema.ts";

/** Characters of one text. */
const MAX_TEXT = 20_000;

const STYLE = `:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}body{max-width:960px;margin:0 auto;padding:16px}
pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid #8886;border-radius:6px;padding:8px;font:13px/1.4 ui-monospace,monospace}
summary{cursor:pointer;padding:3px 0;overflow-wrap:anywhere}.bad>summary{color:#c5221f}td{padding:2px 12px 2px 0;vertical-align:top}`;

export function htmlHead(
  title: string,
  receipt: Receipt,
  systemPrompt: string,
  diff: RunDiff | undefined,
): string {
  const { uuid, agent, provider, model, exit_code, exit_reason, steps, tokens_used, cost_usd, elapsed_ms } =
    receipt;
  const facts = {
    End: `${exit_reason} (exit code ${exit_code})`,
    Agent: agent,
    Model: `${model} of ${provider}`,
    ...{
      Steps: steps,
      Tokens: tokens_used,
      Cost: cost_usd === null ? "not known" : `$${cost_usd.toFixed(4)}`,
    },
    Time: `${(elapsed_ms / 1000).toFixed(1)} s`,
    Run: uuid,
  };
  const rows = Object.entries(facts).map(([name, value]) => `<tr><td>${name}<td>${safe(String(value))}`);
  const checks = receipt.checks.map(({ command, exit_code, output = "" }) =>
    fold(`${exit_code === 0 ? "passed" : "failed"}: ${command}`, block("Output", output), exit_code !== 0),
  );
  return [
    `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">`,
    `<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">`,
    `<title>${safe(firstLine(title))}</title><style>${STYLE}</style>`,
    `<h1>${safe(firstLine(title))}</h1>${block("Intent", title)}<table>${rows.join("")}</table>`,
    receipt.error ? block("Error", receipt.error.message) : "",
    receipt.result ? block("Answer", receipt.result) : "",
    checks.length > 0 ? `<h2>Checks</h2>${checks.join("")}` : "",
    diff?.patch
      ? `<h2>Files</h2>${fold(receipt.files_changed.join(", "), block("Changes", diff.patch), false)}`
      : "",
    `<h2>Steps</h2>${fold("System prompt", block("", systemPrompt), false)}\n`,
  ].join("\n");
}

export function htmlStep(record: StepRecord, cwd: string): string {
  const { step, messages, reasoning = "", raw_response, tool_calls, summary, tokens_used } = record;
  const title = tool_calls.length === 0 ? firstLine(summary) : didTitle(tool_calls, cwd);
  const heard = messages.slice(0, -1).map(({ role, content }) => block(role, content));
  const calls = tool_calls.map(({ name, input, result, error }) =>
    [
      block(name, JSON.stringify(input, null, 2)),
      block(error === null ? "Result" : "Error", error ?? result ?? ""),
    ].join(""),
  );
  const body = [...heard, block("Reasoning", reasoning), block("Text", raw_response), ...calls].join("");
  const failed = tool_calls.some(({ error }) => error !== null);
  return `${fold(`${step}. ${title} (${tokens_used} tokens)`, body, failed)}\n`;
}

function fold(title: string, body: string, failed: boolean): string {
  return `<details${failed ? ' class="bad"' : ""}><summary>${safe(title)}</summary>${body}</details>`;
}

function block(title: string, text: string): string {
  if (text === "") return "";
  const more = text.length - MAX_TEXT;
  const shown = more > 0 ? `${text.slice(0, MAX_TEXT)}\n[${more} more characters]` : text;
  return `${title === "" ? "" : `<h3>${safe(title)}</h3>`}<pre>${safe(shown)}</pre>`;
}

function safe(text: string): string {
  return Bun.escapeHTML(redactSecrets(text));
}
