/** The mode of this binary that gives up rights by Landlock and becomes another program. */

import { ptr } from "bun:ffi";
import { closeSync, openSync, statSync } from "node:fs";
import { openLibrary } from "../lib/c-library.ts";
import { ROOT_RIGHTS } from "./sandbox.ts";

/** Numbers of linux/landlock.h, linux/prctl.h and signal.h. */
const CREATE_RULESET = 444;
const ADD_RULE = 445;
const RESTRICT_SELF = 446;
const VERSION = 1;
const PATH_BENEATH = 1;
const O_PATH = 0o10000000;
const NO_NEW_PRIVS = 38;
const DROP_BOUNDING = 24;
const MAX_RIGHTS = 64;
const SIGPIPE = 13;
const SET_MASK = 2;
const MASK_BYTES = 128;

const EXECUTE = 1n << 0n;
const WRITE_FILE = 1n << 1n;
const READ_FILE = 1n << 2n;
const READ_FOLDER = 1n << 3n;
const TRUNCATE = 1n << 14n;
const IOCTL = 1n << 15n;
const OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL;
const TO_READ = EXECUTE | READ_FILE | READ_FOLDER;
/** The number of rights on files that a version knows; the rest came before the first. */
const RIGHTS_OF = [13, 14, 15, 15, 16];
/** From this version on, sockets of the abstract namespace can be closed. */
const SCOPES = 6;
const ABSTRACT_SOCKETS = 1n;

const SYMBOLS = {
  syscall: { args: ["i64", "u64", "u64", "u64", "u64"], returns: "i64" },
  prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
  signal: { args: ["i32", "ptr"], returns: "ptr" },
  sigprocmask: { args: ["i32", "ptr", "ptr"], returns: "i32" },
  execvp: { args: ["ptr", "ptr"], returns: "i32" },
} as const;

type Calls = NonNullable<ReturnType<typeof openLibrary<typeof SYMBOLS>>>;

/** `args`: the grants as JSON, the program and its arguments. Returns only when it fails. */
export function becomeProgram([grants = "", ...argv]: string[]): void {
  const calls = openLibrary(SYMBOLS);
  const version = calls ? landlockVersion(calls) : 0;
  if (calls && version > 0) restrict(calls, version, grants);
  if (calls && version > 0) execute(calls, argv);
  process.stderr.write(
    version > 0
      ? `rnix: ${argv[0]} can't be executed: not found, or no program\n`
      : "rnix: this system has no Landlock. Use --sandbox off.\n",
  );
  process.exit(126);
}

function restrict(calls: Calls, version: number, grants: string): void {
  const handled = (1n << BigInt(RIGHTS_OF[Math.min(version, RIGHTS_OF.length) - 1] ?? 0)) - 1n;
  // handled_access_fs, handled_access_net, scoped
  const attributes = new BigUint64Array([handled, 0n, version >= SCOPES ? ABSTRACT_SOCKETS : 0n]);
  const bytes = version >= SCOPES ? 24 : version >= 4 ? 16 : 8;
  const rules = Number(calls.syscall(CREATE_RULESET, ptr(attributes), bytes, 0, 0));
  if (rules < 0) throw new Error("Landlock takes no rules here.");
  const { read, write } = JSON.parse(grants);
  for (const path of read) allow(calls, rules, path, handled & TO_READ);
  for (const path of write) allow(calls, rules, path, handled);
  const kept = new Set(Object.values(ROOT_RIGHTS));
  if (process.getuid?.() === 0)
    for (let right = 0; right < MAX_RIGHTS; right++)
      if (!kept.has(right)) calls.prctl(DROP_BOUNDING, right, 0, 0, 0);
  if (
    calls.prctl(NO_NEW_PRIVS, 1, 0, 0, 0) !== 0 ||
    Number(calls.syscall(RESTRICT_SELF, rules, 0, 0, 0)) !== 0
  )
    throw new Error("Landlock can't be set here.");
}

/** A path that is gone, or that the user can't open, is not granted. */
function allow(calls: Calls, rules: number, path: string, rights: bigint): void {
  let file: number;
  try {
    file = openSync(path, O_PATH);
  } catch {
    return;
  }
  const allowed = statSync(path).isDirectory() ? rights : rights & OF_A_FILE;
  // struct landlock_path_beneath_attr: packed, 8 and 4 bytes.
  const rule = new DataView(new ArrayBuffer(12));
  rule.setBigUint64(0, allowed, true);
  rule.setInt32(8, file, true);
  calls.syscall(ADD_RULE, rules, PATH_BENEATH, ptr(rule), 0);
  closeSync(file);
}

/** The runtime ignores SIGPIPE, which a program would inherit. */
function execute(calls: Calls, argv: readonly string[]): void {
  calls.signal(SIGPIPE, null);
  calls.sigprocmask(SET_MASK, ptr(new Uint8Array(MASK_BYTES)), null);
  const texts = argv.map((argument) => Buffer.from(`${argument}\0`));
  const pointers = new BigUint64Array([...texts.map((text) => BigInt(ptr(text))), 0n]);
  const [program] = texts;
  if (program) calls.execvp(ptr(program), ptr(pointers));
}

/** 0: none. */
function landlockVersion(calls: Calls): number {
  return Math.max(0, Number(calls.syscall(CREATE_RULESET, 0, 0, VERSION, 0)));
}
