/** The background units of a run as chips, in a strip for each kind. */

import { useSignal } from "@preact/signals";
import { now, type Unit } from "./page-api.ts";
import { elapsed } from "./page-format.ts";
import { useRead } from "./page-read.ts";
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
              onClick={() => (opened.value = opened.value === id ? "" : id)}
            >
              {description.slice(0, 40)}, {status}{" "}
              {elapsed((ended_at === null ? now.value : Date.parse(ended_at)) - Date.parse(started_at))}
            </button>
          ))}
        </p>
      ))}
      {unit && <UnitBody key={unit.id} unit={unit} />}
    </>
  );
}

function UnitBody({ unit: { id, kind, description, ended_at } }: { unit: Unit }) {
  const { found, problem, act } = useRead("unit_output", { id });
  return (
    <div class="body">
      {problem !== "" && <p role="alert">{problem}</p>}
      {found && <Text title={description} text={found.text || "no output yet"} />}
      {ended_at === null && (
        <button type="button" class="danger" onClick={() => act("stop_unit", { id })}>
          Stop {kind === "local_bash" ? "the command" : "it"}
        </button>
      )}
    </div>
  );
}
