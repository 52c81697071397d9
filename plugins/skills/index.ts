/** `/dev/skills/manage`: agents write, change and delete skills, which wait for the user's trust. */

import { definePlugin } from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
import { SKILL_MANAGE } from "./manage.ts";
import { WrittenSkills } from "./written-skills.ts";

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
