/** The background units of a run as chips, in a strip for each kind. */

import { useSignal } from "@preact/signals";
import { act, now, read, type Unit } from "./page-api.ts";
import { elapsed } from "./page-format.ts";
import { Text } from "./text-block.tsx";

/** What a person calls each kind. */
const KINDS: Record<string, string> = {
  local_bash: "Commands",
  monitor: "Monitors",
  local_agent: "Agents",
  local_workflow: "Workflows",
  dream: "Dreams",
  in_process_teammate: "Teammates",
  lsp: "Language servers",
};

export function UnitStrip({ units }: { units: readonly Unit[] }) {
  const opened = useSignal("");
  const output = useSignal<string | null>(null);
  const problem = useSignal("");
  const failed = (error: Error): void => {
    problem.value = error.message;
  };
  const open = (id: string): void => {
    problem.value = "";
    output.value = null;
    opened.value = opened.value === id ? "" : id;
    if (opened.value === "") return;
    read("unit_output", { id }).then(({ text }) => {
      output.value = text;
    }, failed);
  };
  const unit = units.find(({ id }) => id === opened.value);
  return (
    <>
      {[...Map.groupBy(units, ({ kind }) => kind)].map(([kind, some]) => (
        <p key={kind} class="strip">
          <span class="number">{KINDS[kind] ?? kind}</span>
          {some.map(({ id, description, status, started_at, ended_at }) => (
            <button
              key={id}
              type="button"
              class={`unit ${status}`}
              title={`${description}: ${status}`}
              aria-expanded={opened.value === id}
              onClick={() => open(id)}
            >
              {description.slice(0, 40)}, {status}{" "}
              {elapsed((ended_at === null ? now.value : Date.parse(ended_at)) - Date.parse(started_at))}
            </button>
          ))}
        </p>
      ))}
      {problem.value !== "" && <p role="alert">{problem}</p>}
      {unit && (
        <div class="body">
          {output.value !== null && <Text title={unit.description} text={output.value || "no output yet"} />}
          {unit.ended_at === null && (
            <button
              type="button"
              class="danger"
              onClick={() => act("stop_unit", { id: unit.id }).catch(failed)}
            >
              Stop {unit.kind === "local_bash" ? "the command" : "it"}
            </button>
          )}
        </div>
      )}
    </>
  );
}
