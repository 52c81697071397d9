/** The views of a project: what agents remember there, with its review; and its plugins and servers. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useRead } from "./page-read.ts";
import { Select } from "./select.tsx";

/** Chooses a project; the first one to begin with. */
function WithProject({ title, of }: { title: string; of(project: string): ComponentChildren }) {
  const { found, problem } = useRead("projects", {});
  const chosen = useSignal("");
  const project = chosen.value || (found?.projects[0] ?? "");
  return (
    <>
      <h1>{title}</h1>
      {problem !== "" && <p role="alert">{problem}</p>}
      {found?.projects.length === 0 && <p class="empty">No project has runs yet.</p>}
      {project !== "" && (
        <>
          <Select
            label="Project"
            value={project}
            options={found?.projects ?? []}
            pick={(value) => (chosen.value = value)}
          />
          {of(project)}
        </>
      )}
    </>
  );
}

const SCOPES: Record<string, string> = {
  memory: "Notes of this project",
  global_memory: "Notes for all projects",
  profile: "Your profile",
};

export function Memory() {
  return <WithProject title="Memory" of={(project) => <MemoryOf key={project} project={project} />} />;
}

function MemoryOf({ project }: { project: string }) {
  const { found, problem, act } = useRead("memory", { project });
  const decide = (decision: { approve?: string; reject?: string; remove?: string }) => (): void =>
    act("decide_memory", { project, ...decision });
  return (
    <>
      {problem !== "" && <p role="alert">{problem}</p>}
      {found?.waiting.map(({ id, target, text, why, agent }) => (
        <section key={id} class="ask" aria-label="An entry that waits for review">
          <p class="facts">
            <span>{SCOPES[target]}</span>
            <span>{why}</span>
            <span>{agent}</span>
          </p>
          <pre>{text}</pre>
          <div class="actions">
            <button type="button" onClick={decide({ approve: id })}>
              Approve
            </button>
            <button type="button" class="danger" onClick={decide({ reject: id })}>
              Reject
            </button>
          </div>
        </section>
      ))}
      {found?.scopes.map(({ target, entries }) => (
        <section key={target} aria-label={SCOPES[target]}>
          <h2>
            {SCOPES[target]} <span class="number">{entries.length}</span>
          </h2>
          <ul class="runs">
            {entries.map(({ id, text, at, agent }) => (
              <li key={id} class="row">
                <p>{text}</p>
                <div class="actions">
                  <span class="number">
                    {at?.slice(0, 10)} {agent || "you"}
                  </span>
                  {target === "memory" && (
                    <button type="button" class="danger" onClick={decide({ remove: id })}>
                      Remove
                    </button>
                  )}
                </div>
              </li>
            ))}
          </ul>
        </section>
      ))}
    </>
  );
}

interface Part {
  name: string;
  state: string;
  /** Where it comes from. */
  from: string;
  problem: string;
}

export function ProjectParts() {
  return (
    <WithProject title="Plugins and servers" of={(project) => <PartsOf key={project} project={project} />} />
  );
}

function PartsOf({ project }: { project: string }) {
  const { found, problem } = useRead("parts", { project });
  if (found === null) return problem === "" ? null : <p role="alert">{problem}</p>;
  const { plugins, servers, init, down } = found;
  const faults = [...found.problems, ...init.problems.map(({ path, message }) => `${path}: ${message}`)];
  const lists: [string, Part[]][] = [
    [
      "MCP servers",
      servers.map(({ name, state, file }) => ({
        name,
        state,
        from: file,
        problem: state === "withheld" ? "until rnix trust" : "",
      })),
    ],
    [
      "Mounts of live runs that are down",
      down.map(({ pid, path, down: why }) => ({
        name: path,
        state: "down",
        from: `PID ${pid}`,
        problem: why ?? "",
      })),
    ],
    [
      "Units of init.yaml",
      init.units.map((unit) => ({ ...unit, from: unit.project ?? "yours", problem: unit.error ?? "" })),
    ],
    [
      "Plugins",
      plugins.map(({ name, layer, state, problems }) => ({
        name,
        state,
        from: layer,
        problem: problems.map(({ message }) => message).join("; "),
      })),
    ],
  ];
  return (
    <>
      {faults.map((text) => (
        <p key={text} role="alert">
          {text}
        </p>
      ))}
      {lists.map(
        ([title, parts]) => parts.length > 0 && <PartList key={title} title={title} parts={parts} />,
      )}
    </>
  );
}

/** What failed comes first. */
function PartList({ title, parts }: { title: string; parts: readonly Part[] }) {
  const sorted = parts.toSorted((a, b) => Number(b.problem !== "") - Number(a.problem !== ""));
  return (
    <section aria-label={title}>
      <h2>
        {title} <span class="number">{parts.length}</span>
      </h2>
      <ul class="runs">
        {sorted.map(({ name, state, from, problem }, i) => (
          <li key={i} class={problem === "" ? "" : "failed"}>
            {name}{" "}
            <span class="number">
              {state}, {from}
            </span>
            {problem !== "" && <p class="doing">{problem}</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}
