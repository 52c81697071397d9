/** A question of a run, whole, with what can be answered. */

import { useSignal } from "@preact/signals";
import { fieldLines, visibleLines } from "../lib/visible-call.ts";
import type { AskAnswer, ListedAsk } from "../protocol/methods.ts";
import { act, asks, asksMovedAt, now } from "./page-api.ts";
import { elapsed } from "./page-format.ts";
import { useAttempt } from "./page-read.ts";

/** A press that comes sooner was meant for the question that was there before. */
const HELD_MS = 1_000;

export function AskCard({ ask }: { ask: ListedAsk }) {
  const { problem, attempt } = useAttempt();
  const given = useSignal<AskAnswer[]>(ask.questions.map(() => ({ choices: [] })));
  const send = (answers: AskAnswer[]): void =>
    attempt(act("answer_user", { request_id: ask.request_id, answers, via: "dashboard" }));
  const pressed = (act: () => void): void => {
    if (performance.now() - asksMovedAt.value < HELD_MS)
      problem.value = "The questions have just moved: press again.";
    else act();
  };
  const set = (at: number, answer: AskAnswer): void => {
    given.value = given.value.map((one, i) => (i === at ? answer : one));
  };
  const { call, questions } = ask;
  const isOne = questions.length === 1 && !questions[0]?.multi;
  return (
    <section class="ask" aria-label={`Question of ${ask.agent}`}>
      <p class="facts">
        <a href={`#/run/${ask.uuid}`}>{ask.intent || ask.agent}</a>
        <span>asked {elapsed(now.value - ask.asked_at_ms)} ago</span>
        {ask.until_ms !== null && <span>{elapsed(ask.until_ms - now.value)} left</span>}
      </p>
      {call && (
        <>
          <h2>{call.tool ?? "A call"}</h2>
          <pre>{callLines(call)}</pre>
          {call.why && call.why.length > 0 && (
            <p class="doing">asked because {call.why.map(visibleLines).join(", ")}</p>
          )}
        </>
      )}
      {questions.map((question, at) => (
        <fieldset key={question.question}>
          <legend>{question.question}</legend>
          {question.text && (
            <input
              aria-label={`Text for: ${question.question}`}
              placeholder="Say more, or answer in your own words"
              onInput={(event) =>
                set(at, { ...(given.value[at] ?? { choices: [] }), text: event.currentTarget.value })
              }
            />
          )}
          <div class="actions">
            {question.options.map(({ id, label, about }) => {
              const chosen = given.value[at]?.choices.includes(id) ?? false;
              const press = (): void => {
                const before = given.value[at] ?? { choices: [] };
                const others = question.multi ? before.choices.filter((one) => one !== id) : [];
                const answer = { ...before, choices: chosen && question.multi ? others : [...others, id] };
                if (isOne) send([answer]);
                else set(at, answer);
              };
              return (
                <button
                  type="button"
                  key={id}
                  aria-pressed={isOne ? undefined : chosen}
                  onClick={() => pressed(press)}
                >
                  {label}
                  {about && ` (${about})`}
                </button>
              );
            })}
          </div>
        </fieldset>
      ))}
      {(!isOne || questions[0]?.options.length === 0) && (
        <button type="button" onClick={() => pressed(() => send(given.value))}>
          Answer
        </button>
      )}
      {problem.value !== "" && <p role="alert">{problem}</p>}
    </section>
  );
}

/** All that is asked for: what is not shown is not agreed to. */
function callLines({ subject, input, input_chars, path, opened }: NonNullable<ListedAsk["call"]>): string {
  const shown = visibleLines(subject || path);
  const file = opened === undefined ? [] : [`the file is ${visibleLines(opened)}`];
  const left =
    input_chars === undefined ? [] : [`(its input of ${input_chars} characters is too long to be shown)`];
  return [shown, ...file, ...fieldLines(input, shown), ...left].join("\n");
}

/** The view Asks: all open questions, the oldest first. */
export function Asks() {
  return (
    <>
      <h1>Asks</h1>
      {asks.value.length === 0 && <p class="empty">No question waits for you.</p>}
      {asks.value.map((ask) => (
        <AskCard key={ask.request_id} ask={ask} />
      ))}
    </>
  );
}
