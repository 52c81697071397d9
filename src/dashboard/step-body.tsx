/** The body of a step: its text, its calls with input and result; and, when asked for, all that the model was sent. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { read } from "./page-api.ts";

/** Characters that are shown at once. */
const SHOWN = 20_000;

interface Call {
  id: string;
  name: string;
  input: Record<string, unknown>;
  result: string | null;
  error: string | null;
}

interface Detail {
  raw_response: string;
  reasoning?: string;
  tool_calls: Call[];
}

interface Prompt {
  model: string;
  system_prompt: string;
  tools: { name: string }[];
  messages: { role: string; content: string; tool_calls?: { name: string; input: unknown }[] }[];
}

export function StepBody({ uuid, step, close }: { uuid: string; step: number; close(): void }) {
  const detail = useSignal<Detail | null>(null);
  const prompt = useSignal<Prompt | null>(null);
  const problem = useSignal("");
  const failed = (error: Error): void => {
    problem.value = error.message;
  };
  useEffect(() => {
    read<Detail>("get_step_detail", { uuid, step }).then((found) => {
      detail.value = found;
    }, failed);
  }, [uuid, step]);
  const showPrompt = (): void => {
    read<Prompt>("get_step_prompt", { uuid, step }).then((found) => {
      prompt.value = found;
    }, failed);
  };
  return (
    <section class="body" aria-label={`Step ${step}`}>
      <h2>Step {step}</h2>
      <div class="actions">
        <button type="button" onClick={showPrompt}>
          What the model was sent
        </button>
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
      {problem.value !== "" && <p role="alert">{problem}</p>}
      {detail.value?.reasoning && <Text title="Reasoning" text={detail.value.reasoning} />}
      {detail.value?.raw_response && <Text title="Text" text={detail.value.raw_response} />}
      {detail.value?.tool_calls.map(({ id, name, input, result, error }) => (
        <div key={id}>
          <Text title={name} text={JSON.stringify(input, null, 2)} />
          <Text title={error === null ? "Result" : "Error"} text={error ?? result ?? ""} />
        </div>
      ))}
      {prompt.value && (
        <>
          <Text
            title={`System prompt, ${prompt.value.tools.length} tools`}
            text={prompt.value.system_prompt}
          />
          {prompt.value.messages.map(({ role, content, tool_calls = [] }, i) => (
            <Text
              key={i}
              title={role}
              text={[content, ...tool_calls.map((call) => JSON.stringify(call))].join("\n")}
            />
          ))}
        </>
      )}
    </section>
  );
}

function Text({ title, text }: { title: string; text: string }) {
  const whole = useSignal(false);
  const cut = !whole.value && text.length > SHOWN;
  return (
    <>
      <h3>{title}</h3>
      <pre>{cut ? text.slice(0, SHOWN) : text}</pre>
      {cut && (
        <button type="button" onClick={() => (whole.value = true)}>
          Show the other {text.length - SHOWN} characters
        </button>
      )}
    </>
  );
}
