/** Reads a method's answer for a view, again when what it depends on has changed. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { act, read } from "./page-api.ts";

interface Read<T> {
  /** The answer to the payload before stays until the next one is there. */
  found: T | null;
  problem: string;
  again(): void;
  /** Does something, then reads again. */
  act(method: string, payload: object): void;
}

/** `payload`: null: there is nothing to read. `also`: reads again when it changes. */
export function useRead<T>(method: string, payload: object | null, also?: unknown): Read<T> {
  const found = useSignal<T | null>(null);
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
    read<T>(method, payload).then((answer) => {
      if (latest.current === mine) found.value = answer;
    }, failed);
  };
  useEffect(again, [method, text, also]);
  const doing = (what: string, more: object): void => {
    act(what, more).then(again, failed);
  };
  return { found: found.value, problem: problem.value, again, act: doing };
}
