/** The names of the files that hold results and images of a run. */

/** The file name of a result beside a run: the hash of its content. Another form could lead out of the run's folder. */
export const RESULT_FILE = /^results\/[0-9a-f]{64}(?:\.[A-Za-z0-9]{1,9})?$/;
