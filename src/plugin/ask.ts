/** The service `ask`: questions to the user. */

/** Asks the user. Without a client that can answer, `--on-ask` decides: no answer, the defaults, or the run waits on disk. */
export interface Ask {
  /**
   * Resolves with one answer for each question, in order. A call asks one list of questions after the other. A run that
   * is suspended meanwhile makes the call again when it resumes, with the answers so far: ask before the call acts.
   */
  ask(questions: AskQuestion[]): Promise<AskReply>;
}

/** A question to the user, who may always answer in their own words. */
export interface AskQuestion {
  question: string;
  /** Some words for a small space. */
  header?: string;
  /** None: the answer is a text. */
  options?: { label: string; description?: string }[];
  /** Several options may be chosen. */
  multi_select?: boolean;
  /** What counts when no answer comes: labels of options; a text where there are none. */
  default?: string | string[];
}

export interface AskReply {
  /** `answer`: the chosen labels, then the user's own words. Empty: no answer. */
  answers: { question: string; answer: string[] }[];
  /** `default`, `denied`: the user could not be asked. `expiry`: no answer came in time, so the defaults count. */
  by: "user" | "default" | "expiry" | "denied";
  /** For the model: why answers are missing, and what to do then. */
  note?: string;
}
