/** Reads a method's answer for a view, again when what it depends on has changed; and does what a view is asked to. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { PageAnswer, PageMethod, PagePayload } from "../server/dashboard/page-methods.ts";
import { act, read } from "./page-api.ts";

interface Read<M extends PageMethod> {
  /** The answer to the payload before stays until the next one is there. */
  found: PageAnswer<M> | null;
  problem: string;
  again(): void;
  /** Does something, then reads again. */
  act<A extends PageMethod>(method: A, payload: PagePayload<A>): void;
}

/** `payload`: null: there is nothing to read. `also`: reads again when it changes. */
export function useRead<M extends PageMethod>(
  method: M,
  payload: PagePayload<M> | null,
  also?: unknown,
): Read<M> {
  const found = useSignal<PageAnswer<M> | null>(null);
  const { problem, attempt } = useAttempt();
  const latest = useRef(0);
  const text = JSON.stringify(payload);
  const again = (): void => {
    const mine = ++latest.current;
    problem.value = "";
    if (payload === null) return;
    attempt(
      read(method, payload).then((answer) => {
        if (latest.current === mine) found.value = answer;
      }),
    );
  };
  useEffect(again, [method, text, also]);
  const doing: Read<M>["act"] = (what, more) => attempt(act(what, more).then(again));
  return { found: found.value, problem: problem.value, again, act: doing };
}

/** Why the last attempt failed, to be shown beside what was attempted; "" if it did not. */
export function useAttempt() {
  const problem = useSignal("");
  const attempt = (work: Promise<unknown>): void => {
    problem.value = "";
    work.catch((error: Error) => {
      problem.value = error.message;
    });
  };
  return { problem, attempt };
}
