/** The driver that plays scripts and recorded runs. */

import { definePlugin, type OpenContext, type VFSFile } from "rnix/plugin";

/**
 * Plays a script or a recorded run instead of calling a model: for tests, demos and CI (docs/replay.md). The model's
 * name is the script's file, absolute or relative to the run's folder, or the run's UUID. Tools really run.
 */
export default definePlugin({
  name: "replay",
  api: 1,
  needs: ["history", "store"],
  devices: {
    "/dev/llm/replay": {
      factory: (_subpath, _flags, context) => open(context),
      // Never chosen automatically: it needs the name of a script.
      provider: { plays: true, detect: async () => null },
    },
  },
});

async function open(context: OpenContext): Promise<VFSFile> {
  const [{ ModelFile }, { ScriptedModel }] = await Promise.all([
    import("../_model/model-file.ts"),
    import("./scripted-model.ts"),
  ]);
  return new ModelFile(new ScriptedModel(context), {
    name: "replay",
    devicePath: "/dev/llm/replay",
    models: [],
    can: { images: true },
  });
}
