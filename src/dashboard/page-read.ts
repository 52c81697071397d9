/** Reads a method's answer for a view, again when what it depends on has changed. */

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
  const problem = useSignal("");
  const latest = useRef(0);
  const text = JSON.stringify(payload);
  const failed = (error: Error): void => {
    problem.value = error.message;
  };
  const again = (): void => {
    const mine = ++latest.current;
    problem.value = "";
    if (payload === null) return;
    read(method, payload).then((answer) => {
      if (latest.current === mine) found.value = answer;
    }, failed);
  };
  useEffect(again, [method, text, also]);
  const doing: Read<M>["act"] = (what, more) => void act(what, more).then(again, failed);
  return { found: found.value, problem: problem.value, again, act: doing };
}
