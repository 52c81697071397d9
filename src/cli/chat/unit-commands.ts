/** The command /units of a conversation: lists its background units, prints their output, ends them. */

import { isTerminal } from "../../daemons/snapshot.ts";
import { unitDetail } from "../../daemons/unit-line.ts";
import type { DaemonSnapshot } from "../../plugin/index.ts";
import { usageError } from "../exit.ts";
import { formatElapsed, plural } from "../output/format.ts";
import type { ChatActions } from "./actions.ts";

/** Lines of an output that are printed; `rnix units output` prints the rest. */
const SHOWN_LINES = 40;

export async function units(chat: ChatActions): Promise<void> {
  if (chat.uuid === null) throw usageError("nothing runs in the background: there is no conversation yet");
  const { all_units } = await chat.link.request("show", { uuid: chat.uuid });
  const newest = all_units.toReversed();
  const live = newest.filter(({ status }) => !isTerminal(status));
  const ended = newest.filter(({ status }) => isTerminal(status));
  if (newest.length === 0) return chat.print("the conversation has no background units");
  const choices = [...live, ...ended].map((unit) => ({
    value: unit,
    label: `${unit.id}  ${unit.description}`,
    about: aboutOf(unit),
  }));
  const title = `Background units: ${live.length} live, ${ended.length} ended`;
  const unit = await chat.pick(title, choices);
  if (unit === null) return;
  const isStopped =
    !isTerminal(unit.status) &&
    (await chat.pick(`${unit.id}  ${unit.description}`, [
      { value: false, label: "show its output", about: "" },
      { value: true, label: "stop it", about: "the agent reads that it was killed" },
    ]));
  if (isStopped === null) return;
  if (isStopped) await chat.link.request("stop_unit", { id: unit.id });
  else chat.print(await outputOf(chat, unit));
}

function aboutOf(unit: DaemonSnapshot): string {
  const end = unit.ended_at === null ? Date.now() : Date.parse(unit.ended_at);
  return `${unit.kind} ${unit.status}${unitDetail(unit)}, ${formatElapsed(end - Date.parse(unit.started_at))}`;
}

async function outputOf(chat: ChatActions, { id }: DaemonSnapshot): Promise<string> {
  const { text } = await chat.link.request("unit_output", { id });
  const lines = text.trimEnd().split("\n");
  if (lines[0] === "") return `unit ${id} has printed nothing`;
  const more = lines.length - SHOWN_LINES;
  const hint = more > 0 ? [`${plural(more, "line")} before: rnix units output ${id}`] : [];
  return [`output of unit ${id}`, ...hint, ...lines.slice(-SHOWN_LINES)].join("\n");
}
