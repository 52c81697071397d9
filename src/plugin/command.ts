/** A command of the command line that a plugin brings: data only. */

/** A command of the command line for a plugin's device: `rnix NAME ACTION …`. Data only. */
export interface CommandSpec {
  /** Lowercase letters, digits and hyphens; no name of a built-in command. */
  name: string;
  /** One line, as all summaries. */
  summary: string;
  actions: Record<string, CommandAction>;
  /** The action of a command line that names none. */
  default?: string;
}

/** What one action calls, and how its result is printed. */
export interface CommandAction {
  summary: string;
  /** A command line. */
  example: string;
  /** What the example does. By default the summary stands there again. */
  example_about?: string;
  args?: CommandArgument[];
  /** By their names on the command line. `json` and `no-daemon` exist for all. */
  flags?: Record<string, CommandFlag>;
  /**
   * A tool of the plugin, or a path of one of its devices. The input is `input` with each given argument and flag, under
   * its `field`; a path is written the same as JSON.
   */
  call: { tool: string } | { path: string };
  input?: Record<string, unknown>;
  /** Further input without --json, such as a field that asks the tool for text instead of JSON. */
  text_input?: Record<string, unknown>;
  /** "text", by default: the result as it is. --json prints the result as JSON. */
  output?: "text" | CommandTable;
}

export interface CommandArgument {
  name: string;
  summary: string;
  /**
   * "run": a PID, a UUID or the beginning of one, by default the project's last run. It is no input: the call is about this
   * run, so that `process.tree` and the scope "tree" of the store, for reading, are those of its tree.
   */
  type?: "string" | "number" | "run";
  required?: boolean;
  /** Takes all further arguments: true as a list, "text" joined by spaces. */
  rest?: boolean | "text";
  /** The input field. By default the name in lowercase, with "_" for "-". */
  field?: string;
}

export interface CommandFlag {
  /** A list is given by the flag several times. */
  type: "string" | "boolean" | "number" | "list";
  summary: string;
  values?: string[];
  /** The input field. By default the name, with "_" for "-". */
  field?: string;
}

/** A table of a result that is JSON. */
export interface CommandTable {
  /** The field that holds the rows. Absent: the result is the rows. */
  rows?: string;
  columns: CommandColumn[];
  /** The line that is printed when there is no row. */
  empty?: string;
}

export interface CommandColumn {
  title: string;
  /** A field of the row; "last.state" is a field of a field. */
  field: string;
  /** "time": ISO 8601 or Unix ms, printed as local time; "age": the same, printed as the time since then. */
  as?: "text" | "time" | "age" | "count" | "usd" | "tokens";
}
