/** The method get_proc_detail: the older name of `show`. */

import { show } from "./show.ts";

export const getProcDetail = show;
