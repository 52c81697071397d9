/** The files that a run changed, with their diffs, and the undo. */

import { useSignal } from "@preact/signals";
import type { UndoReport } from "../protocol/methods.ts";
import { act } from "./page-api.ts";
import { useAttempt, useRead } from "./page-read.ts";
import { Text } from "./text-block.tsx";

export function Files({ uuid }: { uuid: string }) {
  const { found, problem, again } = useRead("diff", { uuid, patch: true });
  const report = useSignal<UndoReport | null>(null);
  const { problem: refused, attempt } = useAttempt();
  const undo = (more: { redo?: true; dry_run?: true; files?: string[] }): void =>
    attempt(
      act("undo", { uuid, ...more }).then((answer) => {
        report.value = answer;
        again();
      }),
    );
  const patches = new Map((found?.patch ?? "").split(/^(?=diff --git )/m).map((one) => [pathOf(one), one]));
  const planned = report.value?.dry_run ? report.value : null;
  return (
    <section aria-label="Files">
      {(problem || refused.value) && <p role="alert">{problem || refused}</p>}
      {found === null && problem === "" && <p>…</p>}
      {found?.files.length === 0 && <p>It changed no files.</p>}
      {found?.notes.map((note) => (
        <p key={note} class="doing">
          {note}
        </p>
      ))}
      {found && found.files.length > 0 && (
        <div class="actions">
          <button type="button" onClick={() => undo({ dry_run: true })}>
            Undo all…
          </button>
          <button type="button" onClick={() => undo({ redo: true, dry_run: true })}>
            Redo…
          </button>
        </div>
      )}
      {report.value && (
        <div role="status" class="ask">
          <h2>{planned ? "This would be done" : "This was done"}</h2>
          <ul>
            {report.value.files.map(({ path, done, reason }) => (
              <li key={path}>
                {path}: {done} {reason}
              </li>
            ))}
          </ul>
          {[...report.value.warnings, ...report.value.notes].map((text) => (
            <p key={text}>{text}</p>
          ))}
          {planned && (
            <div class="actions">
              <button
                type="button"
                class="danger"
                onClick={() => undo(planned.redo ? { redo: true } : { files: [] })}
              >
                {planned.redo ? "Redo" : "Undo"}
              </button>
              <button type="button" onClick={() => (report.value = null)}>
                Cancel
              </button>
            </div>
          )}
        </div>
      )}
      {found?.files.map(({ path, status, added, removed, steps, undone, problem: why }) => (
        <details key={path} open={found.files.length < 6}>
          <summary>
            {path}{" "}
            <span class="number">
              {status} +{added ?? "?"} −{removed ?? "?"} in step {steps.slice(0, 20).join(", ")}
              {undone && ", undone"}
            </span>
          </summary>
          {why && <p class="doing">{why}</p>}
          {patches.has(path) && <Text text={patches.get(path) ?? ""} patch />}
        </details>
      ))}
    </section>
  );
}

/** As git writes it in the first line of a file's patch. */
function pathOf(patch: string): string {
  return / b\/(.*)$/m.exec(patch.split("\n", 1)[0] ?? "")?.[1] ?? "";
}
