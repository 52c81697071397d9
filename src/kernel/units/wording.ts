/** Formats the signals of units for the model. */

import type { Signal } from "../../daemons/signal.ts";
import { isTerminal } from "../../daemons/snapshot.ts";
import type { DaemonSnapshot } from "../../plugin/index.ts";

/** Characters of the end of an output that a signal carries; DaemonOutput has the rest. */
const MAX_TAIL = 4000;

/** The text of an inbox entry. Keys are removed already. */
export function signalText({ snapshot, event, lifecycle }: Signal): string {
  const unit = `unit ${snapshot.id} [${snapshot.kind}]`;
  if (event) {
    const rest = event.closing ? ["(stream closed)"] : [];
    return [`${unit} events:`, ...(event.line === "" ? [] : [event.line]), ...rest].join("\n");
  }
  if (!isTerminal(lifecycle.status)) return `${unit} still runs: ${snapshot.description}`;
  const tail = tailOf(snapshot);
  return `${unit} ${lifecycle.status}${detailOf(snapshot)}: ${snapshot.description}${tail}`;
}

function detailOf(snapshot: DaemonSnapshot): string {
  switch (snapshot.kind) {
    case "local_bash":
      if (snapshot.metadata.exit_code !== null) return `, exit code ${snapshot.metadata.exit_code}`;
      return snapshot.status === "failed" ? ", exit code unknown" : "";
    case "monitor":
      return `, events=${snapshot.metadata.event_count}`;
    case "lsp": {
      const { server_name, state, restart_count, max_restarts } = snapshot.metadata;
      return `, server=${server_name}, state=${state}, restarts=${restart_count}/${max_restarts}`;
    }
    default:
      return "";
  }
}

function tailOf(snapshot: DaemonSnapshot): string {
  const text = textOf(snapshot).trimEnd();
  if (text === "") return "";
  const cut = text.length > MAX_TAIL;
  const hint = `[the end of its output; DaemonOutput ${snapshot.id} has more]\n`;
  return `\n${cut ? hint : ""}${text.slice(-MAX_TAIL)}`;
}

function textOf(snapshot: DaemonSnapshot): string {
  switch (snapshot.kind) {
    case "local_bash":
      return snapshot.metadata.output;
    case "local_agent":
    case "dream":
    case "in_process_teammate":
    case "local_workflow": {
      const { summary, err } = snapshot.metadata;
      return [summary, err === "" ? "" : `error: ${err}`].filter((part) => part !== "").join("\n");
    }
    default:
      return "";
  }
}
