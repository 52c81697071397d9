import { show } from "./show.ts";

/** The method get_proc_detail: the older name of `show`. */
export const getProcDetail = show;
