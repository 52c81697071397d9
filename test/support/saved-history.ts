/** The events of records, and the conversation that they add up to. */

import {
  converse,
  rebuildHistory,
  type SavedHistory,
} from "../../src/kernel/conversation/rebuild-history.ts";
import type { Message } from "../../src/plugin/index.ts";
import { eventsOfJournal, eventsOfStep, type RunEvent } from "../../src/run/events.ts";
import { openStep } from "../../src/run/open-step.ts";
import { initialState, reduce } from "../../src/run/state.ts";
import type { JournalEntry, StepRecord } from "../../src/run/step-schema.ts";

/** Returns the events of finished steps, and of the journal of the step after them. */
export function eventsOf(steps: readonly StepRecord[], journal: readonly JournalEntry[] = []): RunEvent[] {
  const recorded = steps.reduce((last, { step }) => Math.max(last, step), 0);
  return [...steps.flatMap(eventsOfStep), ...eventsOfJournal(openStep(journal, recorded))];
}

/** Returns the conversation that a resume restores from these events. */
export function historyOf(events: readonly RunEvent[], first: Message | undefined): SavedHistory {
  const state = events.reduce(reduce, initialState());
  return rebuildHistory(state, events.reduce(converse, { messages: [], summary: null }), first);
}
