/** The numbers of a run's recorded lines. */

import { z } from "zod";

/** Fields of each line of a run's files. Absent: an older Rnix wrote the line. */
export const NUMBERED = {
  /** The number of its event in the run; of several events, of the last. */
  n: z.number().optional(),
  /** The number of the line before it in its file. Absent: it is the first line, or the file may be rewritten. */
  p: z.number().optional(),
};
