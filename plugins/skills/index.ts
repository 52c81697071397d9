/** `/dev/skills/manage`: agents write, change and delete skills, which wait for the user's trust. */

import { definePlugin } from "rnix/plugin";
import { SKILL_MANAGE } from "./manage.ts";
import { SkillManageFile } from "./manage-file.ts";

export default definePlugin({
  name: "skills",
  needs: ["store"],
  devices: {
    "/dev/skills/manage": {
      tools: [SKILL_MANAGE],
      factory: (_subpath, _flags, context) => new SkillManageFile(context),
    },
  },
});
