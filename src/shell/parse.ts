/** Parses the text of an agent shell script into jobs, pipelines and commands. */

import { SyscallError } from "../plugin/errors.ts";
import { Lexer, NotUnderstood, plainWord, type Word } from "./lexer.ts";

const MAX_SOURCE = 512 * 1024;
/** Substitutions in substitutions. */
const MAX_DEPTH = 50;

/** `fd` is opened as the operator says: `>`, `>>`, `<`, or `>&` for another descriptor. */
export interface Redirect {
  fd: number;
  operator: string;
  target: Word;
}

/** One command of a pipeline. */
export interface Stage {
  /** `X=1` before it; without words, they stay. */
  assigns: { name: string; value: Word }[];
  words: Word[];
  redirects: Redirect[];
}

/** `after`: what its start depends on. */
export interface Pipeline {
  stages: Stage[];
  negated: boolean;
  after: ";" | "&&" | "||";
}

/** Pipelines that `&&` and `||` join; `background`: with `&` behind. */
export interface Job {
  pipelines: Pipeline[];
  background: boolean;
}

/** Words that begin what is no part of this shell. */
export const RESERVED: ReadonlySet<string> = new Set(
  "if then elif else fi for while until do done case esac select function coproc time { } [[ ]] in".split(
    " ",
  ),
);

/** Parses a script, a line or the inside of `$(…)`. Fails with INVALID, which names the line. */
export function parseScript(source: string, name: string): Job[] {
  if (source.length > MAX_SOURCE)
    throw new SyscallError("INVALID", `${name}: expected a script of at most ${MAX_SOURCE} characters.`);
  const lexer = new Lexer(source, substitutes());
  try {
    return new Parser(lexer, "end").jobs();
  } catch (thrown) {
    if (!(thrown instanceof NotUnderstood)) throw thrown;
    const why = thrown.message || "this shell does not read it; bash -c '…' runs what bash reads";
    throw new SyscallError("INVALID", `${name}: line ${lexer.line}: ${why}.`, { cause: thrown });
  }
}

/** Reads the commands of `$(…)`, so that a script with a wrong one does not begin. They are parsed again where they run. */
function substitutes(): (lexer: Lexer, end: "close" | "end") => [] {
  let depth = 0;
  return (lexer, end) => {
    if (++depth > MAX_DEPTH) throw new NotUnderstood("too many substitutions in each other");
    new Parser(lexer, end).jobs();
    depth--;
    return [];
  };
}

class Parser {
  readonly #lexer: Lexer;
  readonly #end: "close" | "end";
  readonly #jobs: Job[] = [];
  #pipelines: Pipeline[] = [];
  #stages: Stage[] = [];
  #negated = false;
  #after: Pipeline["after"] = ";";
  #stage: Stage = { assigns: [], words: [], redirects: [] };

  constructor(lexer: Lexer, end: "close" | "end") {
    this.#lexer = lexer;
    this.#end = end;
  }

  jobs(): Job[] {
    for (;;) {
      const token = this.#lexer.next();
      if (token.kind === "word") this.#word(token);
      else if (token.kind === "redirect")
        this.#redirect(token.operator, token.fd ?? (token.operator.startsWith("<") ? 0 : 1));
      else if (token.kind === "both") this.#both();
      else if (token.kind === "separator") this.#separator(token.operator);
      else if (token.kind === "open") throw new NotUnderstood("groups with ( ) are not read");
      else if (token.kind === "text") throw new NotUnderstood("<< is not read: use a file");
      else if (token.kind !== this.#end) throw new NotUnderstood("`)` without `(`, or the other way round");
      else {
        this.#endJob(false);
        return this.#jobs;
      }
    }
  }

  #word({ word, quoted, assignment }: { word: Word; quoted: boolean; assignment: boolean }): void {
    const stage = this.#stage;
    if (stage.words.length > 0) return void stage.words.push(word);
    if (assignment) return void stage.assigns.push(assigned(word));
    if (!quoted && !word.dynamic && stage.assigns.length === 0) {
      if (word.text === "!" && this.#stages.length === 0 && !this.#negated) {
        this.#negated = true;
        return;
      }
      if (RESERVED.has(word.text))
        throw new NotUnderstood(`${JSON.stringify(word.text)} is not read: bash -c '…' runs what bash reads`);
    }
    stage.words.push(word);
  }

  #redirect(operator: string, fd: number): void {
    const token = this.#lexer.next();
    const known = operator === ">|" ? ">" : operator;
    if (token.kind !== "word" || !["<", ">", ">>", ">&"].includes(known) || fd > 2)
      throw new NotUnderstood(`expected <, >, >>, 2>, 2>&1 or &> with a file, got ${fd}${operator}`);
    const { word } = token;
    if (known === ">&" && !/^[12]$/.test(word.form)) throw new NotUnderstood("expected 1 or 2 after >&");
    this.#stage.redirects.push({ fd, operator: known, target: word });
  }

  #both(): void {
    const token = this.#lexer.next();
    if (token.kind !== "redirect") throw new NotUnderstood();
    this.#redirect(token.operator, 1);
    this.#stage.redirects.push({ fd: 2, operator: ">&", target: ONE });
  }

  #separator(operator: string): void {
    if (operator === "|" || operator === "|&") {
      if (operator === "|&") this.#stage.redirects.push({ fd: 2, operator: ">&", target: ONE });
      this.#endStage(operator);
    } else if (operator === "&&" || operator === "||") {
      this.#endPipeline(operator);
      this.#after = operator;
    } else if (operator === "&") this.#endJob(true);
    else if (operator === "\n" && this.#isOpen) return;
    else {
      if (operator === ";" && this.#isEmpty) throw new NotUnderstood("`;` without a command before it");
      this.#endJob(false);
    }
  }

  /** Nothing stands behind `|`, `&&` or `||` yet: a newline does not end the command. */
  get #isOpen(): boolean {
    return isEmpty(this.#stage) && (this.#stages.length > 0 || this.#after !== ";" || this.#negated);
  }

  get #isEmpty(): boolean {
    return isEmpty(this.#stage) && this.#stages.length === 0 && this.#pipelines.length === 0;
  }

  #endStage(before: string): void {
    if (isEmpty(this.#stage))
      throw new NotUnderstood(`a command is missing before ${JSON.stringify(before)}`);
    this.#stages.push(this.#stage);
    this.#stage = { assigns: [], words: [], redirects: [] };
  }

  #endPipeline(before: string): void {
    this.#endStage(before);
    this.#pipelines.push({ stages: this.#stages, negated: this.#negated, after: this.#after });
    this.#stages = [];
    this.#negated = false;
    this.#after = ";";
  }

  #endJob(background: boolean): void {
    if (this.#isEmpty && !background && !this.#negated) return;
    this.#endPipeline(background ? "&" : "the end");
    this.#jobs.push({ pipelines: this.#pipelines, background });
    this.#pipelines = [];
  }
}

const ONE = plainWord("1");

function isEmpty({ assigns, words, redirects }: Stage): boolean {
  return assigns.length === 0 && words.length === 0 && redirects.length === 0;
}

/** `NAME=value`: the name is the beginning of the first part, which is plain text. */
function assigned(word: Word): Stage["assigns"][number] {
  const [first, ...rest] = word.parts ?? [];
  const [, name, text] = first && "text" in first ? (/^(\w+)=(.*)$/s.exec(first.text) ?? []) : [];
  if (name === undefined || text === undefined) throw new NotUnderstood("expected NAME=value");
  return { name, value: { ...word, parts: [{ text, quoted: true }, ...rest] } };
}
