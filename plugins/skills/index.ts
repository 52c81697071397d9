/** `/dev/skills/manage`: agents write, change and delete skills, which wait for the user's trust. */

import { definePlugin, type OpenContext, type Store, SyscallError } from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
import { jsonObject } from "../_lib/json.ts";
import {
  checkRequest,
  invalid,
  readSkillFile,
  SKILL_MANAGE,
  type SkillRequest,
  skillFile,
} from "./manage.ts";

export default definePlugin({
  name: "skills",
  needs: ["store"],
  devices: {
    "/dev/skills/manage": {
      tools: [SKILL_MANAGE],
      factory: (_subpath, _flags, context) =>
        new AnswerFile({
          device: "/dev/skills/manage",
          answer: (text) => new WrittenSkills(context).answer(text),
        }),
    },
  },
});

/** The names of the skills that agents have written, as JSON. */
const NAMES = "names.json";
const MAX_SKILLS = 100;

class WrittenSkills {
  readonly #context: OpenContext;

  constructor(context: OpenContext) {
    this.#context = context;
  }

  async answer(text: string): Promise<string> {
    const { op: _, ...input } = jsonObject("SkillManage", text);
    const { checkedInput } = await import("../_lib/checked-input.ts");
    const request = checkedInput(SKILL_MANAGE, input);
    checkRequest(request);
    const answer = await this.#do(request);
    this.#context.progress(`${request.name}: ${request.action}`);
    return answer;
  }

  #do(request: SkillRequest): Promise<string> {
    if (request.action === "create") return this.#create(request);
    return request.action === "patch" ? this.#patch(request) : this.#delete(request);
  }

  async #create({ name, description = "", allowed_tools = "", body = "" }: SkillRequest): Promise<string> {
    const file = skillFile(name, { description, allowed_tools, body }, this.#context.process);
    const known = await this.#store.read("project", fileOf(name));
    if (known && known.text !== "")
      throw invalid(`an agent has written a skill ${name} already; patch it, or choose another name`);
    await this.#list((names) => {
      if (names.length >= MAX_SKILLS) {
        const message = `SkillManage: agents have written ${MAX_SKILLS} skills here. Delete one first.`;
        throw new SyscallError("EXHAUSTED", message);
      }
      return [...names, name];
    });
    await this.#store.replace("project", fileOf(name), file, known?.version ?? null);
    return `The skill ${name} is written. ${WAITS}`;
  }

  async #patch({ name, action: _, ...changes }: SkillRequest): Promise<string> {
    if (Object.keys(changes).length === 0)
      throw invalid("patch: expected description, allowed_tools or body");
    const { text, version } = await this.#written(name);
    const file = skillFile(name, { ...readSkillFile(text), ...changes }, this.#context.process);
    await this.#store.replace("project", fileOf(name), file, version);
    return `The skill ${name} is changed. ${WAITS}`;
  }

  async #delete({ name }: SkillRequest): Promise<string> {
    const { version } = await this.#written(name);
    await this.#store.remove("project", fileOf(name), version);
    await this.#list((names) => names.filter((one) => one !== name));
    return `The skill ${name} is deleted.`;
  }

  async #written(name: string): Promise<{ text: string; version: string }> {
    const found = await this.#store.read("project", fileOf(name));
    if (found && found.text !== "") return found;
    const names = await this.#names();
    const message = `SkillManage: no agent has written a skill ${name} here. There are: ${names.list.join(", ") || "none"}. Skills of the user are changed in their files.`;
    throw new SyscallError("NOT_FOUND", message);
  }

  async #names(): Promise<{ list: string[]; version: string | null }> {
    const found = await this.#store.read("project", NAMES);
    if (!found) return { list: [], version: null };
    const value: unknown = JSON.parse(found.text);
    return { list: Array.isArray(value) ? value.map(String) : [], version: found.version };
  }

  async #list(change: (names: string[]) => string[]): Promise<void> {
    const { list, version } = await this.#names();
    const changed = [...new Set(change(list))].toSorted();
    await this.#store.replace("project", NAMES, `${JSON.stringify(changed)}\n`, version);
  }

  get #store(): Store {
    const { store } = this.#context;
    if (store) return store;
    throw new SyscallError("UNAVAILABLE", "SkillManage: there is no store to write to.");
  }
}

const WAITS = "It waits until the user has trusted it (rnix trust); later runs then find it.";

function fileOf(name: string): string {
  return `${name}/SKILL.md`;
}
