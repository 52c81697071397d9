/** The devices of kernel tools that other parts know. */

/** The device of the tool Agent. */
export const AGENT_PATH = "/dev/kernel/agent";
/** The devices of the tools SendMessage and ReadMessages. */
export const SEND_MESSAGE = "/dev/kernel/send_message";
export const READ_MESSAGES = "/dev/kernel/read_messages";
