/**
 * The schemas of the files in a run's folder, `.rnix/data/steps/<uuid>/`. Every file has a version `v`; a newer version
 * is rejected. Unknown keys are ignored, so that a later version may add keys.
 */

export * from "../../run/inbox-schema.ts";
export { Usage } from "../../run/message.ts";
export * from "../../run/process-schema.ts";
export * from "../../run/step-schema.ts";
