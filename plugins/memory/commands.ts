/** `rnix memory`: what a person does with the entries. */

import type { CommandArgument, CommandFlag, CommandSpec } from "rnix/plugin";

const SCOPE: Record<string, CommandFlag> = {
  global: { type: "boolean", summary: "notes for all projects" },
  profile: { type: "boolean", summary: "your profile" },
};
const TEXT = { as: "text" };

/** What the actions on entries share. */
const ENTRIES = { flags: SCOPE, call: { path: "/dev/memory/commit" }, text_input: TEXT } as const;

/** All the words of a command line, as one text. */
function words(name: string, summary: string, field: string): CommandArgument[] {
  return [{ name, summary, required: true, rest: "text", field }];
}

export const COMMANDS: CommandSpec[] = [
  {
    name: "memory",
    summary: "Show, add, remove and search what agents remember",
    default: "show",
    actions: {
      show: {
        summary: "Show the entries of this project, of all projects, and your profile",
        example: "rnix memory show --profile",
        example_about: "what agents know about you, in every project",
        ...ENTRIES,
        input: { action: "show" },
      },
      add: {
        summary: "Add an entry to the notes of this project",
        example: 'rnix memory add "The tests need a running Postgres"',
        example_about: "every later run in this project knows it",
        args: words("TEXT", "the entry, also of several lines", "content"),
        ...ENTRIES,
        input: { action: "add" },
      },
      rm: {
        summary: "Remove an entry",
        example: "rnix memory rm 1f3c5a7b9d",
        example_about: "removes the entry with this id",
        args: words("ENTRY", "its id, or a part of its text", "old"),
        ...ENTRIES,
        input: { action: "remove" },
      },
      search: {
        summary: "Search entries and the conversations of past runs",
        example: "rnix memory search postgres --since 7d",
        example_about: "what was said about postgres in the last week",
        args: words("WORDS", "what to search for", "query"),
        flags: {
          agent: { type: "string", summary: "only runs of this agent" },
          since: { type: "string", summary: "a date, or an age such as 7d" },
          until: { type: "string", summary: "a date, or an age such as 7d" },
          project: { type: "string", summary: 'the folder of another project, or "*" for all' },
          limit: {
            type: "number",
            summary: "at most this many results, 20 by default",
            field: "max_results",
          },
        },
        call: { path: "/dev/memory/recall" },
        text_input: TEXT,
      },
      review: {
        summary: "List entries that wait for your decision, approve or reject them",
        example: "rnix memory review --approve 1f3c5a7b9d",
        example_about: "lets agents see this entry",
        flags: {
          approve: { type: "string", summary: 'the id of an entry that agents may see, or "all"' },
          reject: { type: "string", summary: 'the id of an entry to remove, or "all"' },
        },
        call: { path: "/dev/memory/review" },
        text_input: TEXT,
      },
    },
  },
];
