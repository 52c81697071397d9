/** The name of the folder that holds schedules. */

/** The folder of schedules below a data folder: of a project, and of the user. */
export const CRON = "cron";
