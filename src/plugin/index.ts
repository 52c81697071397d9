/**
 * `rnix/plugin`: the contract between the kernel and a driver. It imports only its own files, so it is the same in
 * source, in the compiled binary and inside a plugin's Worker. Only data and the handles declared here cross it.
 * `docs/plugins.md` explains it with examples; a conformance suite tests it.
 */

// What a plugin declares.

export type * from "./command.ts";
export * from "./define-plugin.ts";
export type * from "./device.ts";
export type * from "./mount.ts";
export type * from "./plugin.ts";
export type * from "./tool.ts";

// What a driver implements, and what it gets for a call.

export type * from "./context.ts";
export * from "./errors.ts";
export * from "./file.ts";
export * from "./frame.ts";
export * from "./secrets.ts";
export type * from "./services.ts";
export * from "./untrusted-text.ts";
export * from "./visible.ts";

// The services.

export type * from "./ask.ts";
export type * from "./history.ts";
export * from "./job-options.ts";
export type * from "./llm.ts";
export type * from "./programs.ts";
export type * from "./schedule.ts";
export type * from "./search.ts";
export type * from "./store.ts";
export * from "./units.ts";

// Model drivers.

export * from "./model.ts";
export type * from "./provider.ts";
