/** The name of what is kept beside a run: that of its content. One of another form could lead out of the run's folder. */
export const KEPT_FILE = /^results\/[0-9a-f]{64}(?:\.[A-Za-z0-9]{1,9})?$/;
