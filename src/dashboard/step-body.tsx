/** A step, whole: its text, its calls with input and result, its changes in files; and all that the model was sent. */

import { useSignal } from "@preact/signals";
import type { PageAnswer } from "../server/dashboard/page-methods.ts";
import { clock, count, duration } from "./page-format.ts";
import { useRead } from "./page-read.ts";
import { Text } from "./text-block.tsx";

/** Messages of a prompt that are mounted at once: the newest. */
const MESSAGES = 40;

type Detail = PageAnswer<"get_step_detail">;
type Prompt = PageAnswer<"get_step_prompt">;
const SHOWN = ["prompt", "changes", "raw"] as const;
type Shown = (typeof SHOWN)[number];

export function StepBody({ uuid, step, last }: { uuid: string; step: number; last: number }) {
  const shown = useSignal<readonly Shown[]>([]);
  const [hasPrompt, hasChanges, isRaw] = SHOWN.map((one) => shown.value.includes(one));
  const detail = useRead("get_step_detail", { uuid, step });
  const prompt = useRead("get_step_prompt", hasPrompt || isRaw ? { uuid, step } : null);
  const diff = useRead("diff", hasChanges ? { uuid, step, patch: true } : null);
  const { found } = detail;
  const problem = detail.problem || prompt.problem || diff.problem;
  const button = (one: Shown, title: string) => {
    const others = shown.value.filter((other) => other !== one);
    const isShown = others.length < shown.value.length;
    return (
      <button
        type="button"
        aria-expanded={isShown}
        onClick={() => (shown.value = isShown ? others : [...others, one])}
      >
        {title}
      </button>
    );
  };
  return (
    <section class="body" aria-label={`Step ${step}`}>
      <h2>Step {step}</h2>
      <nav class="actions" aria-label="Steps beside this one">
        {step > 1 && <a href={`#/run/${uuid}/steps/${step - 1}`}>Step {step - 1}</a>}
        {step < last && <a href={`#/run/${uuid}/steps/${step + 1}`}>Step {step + 1}</a>}
        <a href={`#/run/${uuid}/steps`}>Close</a>
      </nav>
      <div class="actions">
        {button("prompt", "What the model was sent")}
        {button("changes", "Changes of this step in files")}
        {button("raw", "Raw request and answer")}
      </div>
      {problem !== "" && <p role="alert">{problem}</p>}
      {found && (
        <p class="facts">
          <span>{count(found.usage.input_tokens)} tokens in</span>
          <span>{count(found.usage.cached_tokens)} of them cached</span>
          <span>{count(found.usage.output_tokens)} out</span>
          {found.stop_reason && <span>ended: {found.stop_reason}</span>}
        </p>
      )}
      {found?.compactions?.map(({ summary }, i) =>
        summary ? <Text key={i} title="Compaction: the summary" text={summary.text} /> : null,
      )}
      {found?.reasoning && <Text title="Reasoning" text={found.reasoning} />}
      {found?.raw_response && <Text title="Text" text={found.raw_response} />}
      {found?.tool_calls.map((call) => (
        <CallBody key={call.id} call={call} />
      ))}
      {hasChanges && diff.found && <Text title="Changes" text={diff.found.patch || "none"} patch />}
      {hasPrompt && prompt.found && <PromptBody prompt={prompt.found} />}
      {isRaw && prompt.found && found && (
        <>
          <Text title="Request" text={JSON.stringify(prompt.found, null, 2)} />
          <Text title="Answer and calls" text={JSON.stringify(found, null, 2)} />
        </>
      )}
    </section>
  );
}

function CallBody({ call }: { call: Detail["tool_calls"][number] }) {
  const { name, input, result, error, state, duration_ms, waited_ms } = call;
  const { old_string, new_string, ...rest } = input;
  const isEdit = typeof old_string === "string" && typeof new_string === "string";
  const waited = waited_ms ? `, waited ${duration(waited_ms)} for a person` : "";
  return (
    <div class={state === "done" ? "" : "failed"}>
      <Text title={name} text={JSON.stringify(isEdit ? rest : input, null, 2)} />
      {isEdit && <Text text={[...lines("-", old_string), ...lines("+", new_string)].join("\n")} patch />}
      <Text
        title={`${error === null ? "Result" : "Error"}, ${state}, ${duration(duration_ms)}${waited}`}
        text={error ?? result ?? ""}
        patch={isEdit}
      />
    </div>
  );
}

function lines(mark: string, text: string): string[] {
  return text === "" ? [] : text.split("\n").map((line) => `${mark}${line}`);
}

function PromptBody({ prompt }: { prompt: Prompt }) {
  const all = useSignal(false);
  const left = all.value ? 0 : Math.max(0, prompt.messages.length - MESSAGES);
  return (
    <div>
      <Text
        title={`System prompt, for ${prompt.model} of ${prompt.provider}, ${prompt.tools.length} tools`}
        text={prompt.system_prompt}
      />
      <details>
        <summary>The {prompt.tools.length} tools</summary>
        {prompt.tools.map(({ name, description, input }) => (
          <Text key={name} title={name} text={`${description}\n\n${JSON.stringify(input, null, 2)}`} />
        ))}
      </details>
      {prompt.compactions.map((one) => (
        <p key={one.ts} class="doing">
          Compacted before step {one.step}, {clock(Date.parse(one.ts))}, because of {one.why}:{" "}
          {count(one.tokens_before)} → {count(one.tokens_after)} tokens, {one.replaced} messages replaced,{" "}
          {one.truncated} truncated
        </p>
      ))}
      {left > 0 && (
        <button type="button" onClick={() => (all.value = true)}>
          Show the {left} messages before
        </button>
      )}
      {prompt.messages.slice(left).map(({ role, content, tool_calls = [] }, i) => (
        <Text
          key={left + i}
          title={`${left + i + 1}. ${role}`}
          text={[content, ...tool_calls.map((call) => JSON.stringify(call))].join("\n")}
        />
      ))}
    </div>
  );
}
