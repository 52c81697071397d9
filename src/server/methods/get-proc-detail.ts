import { show } from "./show.ts";

/** The older name of `show`. */
export const getProcDetail = show;
