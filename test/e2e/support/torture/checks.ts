import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Machine } from "../machine.ts";
import { type OnDisk, runsOnDisk } from "./on-disk.ts";
import { linesIn, numbers } from "./roles.ts";

/** Violations that may not exist after any kill. Each is a sentence that says what is wrong. */
export function damage(before: ReadonlyMap<string, OnDisk>, now: readonly OnDisk[]): string[] {
  const byUuid = new Map(now.map((run) => [run.uuid, run]));
  return [...before.values()]
    .filter(({ uuid, stepLines }) => !byUuid.get(uuid)?.stepLines.startsWith(stepLines))
    .map(
      ({ uuid, steps }) =>
        `run ${uuid} had ${steps.length} steps recorded, and they are not there as they were`,
    );
}

/** Steps count up by one, and no call is in two steps. */
export function badlyRecorded(runs: readonly OnDisk[]): string[] {
  return runs.flatMap(({ uuid, steps }) => {
    const wrong: string[] = [];
    if (steps.some(({ step }, at) => step !== at + 1)) {
      wrong.push(`run ${uuid} has the steps ${steps.map(({ step }) => step)}`);
    }
    const ids = steps.flatMap(({ tool_calls }) => tool_calls.map(({ id }) => id));
    if (new Set(ids).size < ids.length) wrong.push(`run ${uuid} has a call in two steps`);
    return wrong;
  });
}

/** A recorded call that may not be made twice. */
export interface Made {
  uuid: string;
  state: string;
}

/** The recorded state of every appended line and every sent message, by its number. */
export function made(runs: readonly OnDisk[]): Map<string, Made> {
  const found = new Map<string, Made>();
  for (const { uuid, steps, journal } of runs) {
    const note = (state: string, name: string, input: Record<string, unknown>): void => {
      const text = name === "Bash" ? input.command : name === "SendMessage" ? input.message : "";
      for (const { nonce } of linesIn(String(text))) found.set(nonce, { uuid, state });
    };
    for (const entry of journal) {
      if (entry.t === "call_start") note("started", entry.name, entry.input);
      if (entry.t === "call_end") note(entry.call.state, entry.call.name, entry.call.input);
    }
    for (const { tool_calls } of steps)
      for (const { state, name, input } of tool_calls) note(state, name, input);
  }
  return found;
}

/** The counting files have the recorded lines, and nothing else. */
export function wrongEffects(machine: Machine, goals: ReadonlyMap<string, number>): string[] {
  const runs = runsOnDisk(join(machine.project, ".rnix/data"));
  const records = made(runs);
  const inFiles = new Map<string, number>();
  const wrong: string[] = [];
  for (const [file, goal] of goals) {
    const lines = linesIn(machine.has(file) ? machine.read(file) : "");
    for (const { nonce } of lines) inFiles.set(nonce, (inFiles.get(nonce) ?? 0) + 1);
    const got = lines.map(({ n }) => n).toSorted((a, b) => a - b);
    if (!Bun.deepEquals(got, numbers(goal))) wrong.push(`${file} should count to ${goal}, and has ${got}`);
  }
  for (const [nonce, times] of inFiles) {
    const record = records.get(nonce);
    if (times > 1) wrong.push(`the call ${nonce} of run ${record?.uuid} was made ${times} times`);
    if (!record) wrong.push(`the call ${nonce} was made, and no record tells of it`);
  }
  return wrong;
}

/** Done calls without their effect. */
export function lostEffects(machine: Machine): string[] {
  const runs = runsOnDisk(join(machine.project, ".rnix/data"));
  const texts = readdirSync(machine.project, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => machine.read(name));
  const there = new Set(texts.flatMap(linesIn).map(({ nonce }) => nonce));
  return runs.flatMap(({ uuid, steps }) =>
    steps
      .flatMap(({ tool_calls }) => tool_calls)
      .filter(({ name, state }) => name === "Bash" && state === "done")
      .flatMap(({ input }) => linesIn(String(input.command)))
      .filter(({ nonce }) => !there.has(nonce))
      .map(({ nonce }) => `the call ${nonce} of run ${uuid} is recorded as done, and its line is not there`),
  );
}

/** A message arrived once if it is recorded as sent, and at most once if its call was cut off. */
export function wronglyTold(receiver: OnDisk, runs: readonly OnDisk[], file: string): string[] {
  const arrived = new Map<string, number>();
  for (const { messages, tool_calls } of receiver.steps) {
    const texts = [
      ...messages.filter(({ role }) => role === "user").map(({ content }) => content),
      ...tool_calls.filter(({ name }) => name === "ReadMessages").map(({ result }) => result ?? ""),
    ];
    for (const { nonce } of texts.flatMap(linesIn)) arrived.set(nonce, (arrived.get(nonce) ?? 0) + 1);
  }
  const sender = runs.filter(({ info }) => info?.intent.startsWith(`send ${file} `));
  const sent = made(sender);
  return [
    ...[...arrived]
      .filter(([, times]) => times > 1)
      .map(([nonce, times]) => `message ${nonce} arrived ${times} times`),
    ...[...arrived.keys()]
      .filter((nonce) => !sent.has(nonce))
      .map((nonce) => `message ${nonce} was sent by no run`),
    ...[...sent]
      .filter(([nonce, { state }]) => state === "done" && !arrived.has(nonce))
      .map(([nonce]) => `message ${nonce} was sent, and never arrived`),
  ];
}
