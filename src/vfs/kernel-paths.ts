/** The devices of kernel tools that other parts know. */

export const AGENT_PATH = "/dev/kernel/agent";
export const SEND_MESSAGE = "/dev/kernel/send_message";
export const READ_MESSAGES = "/dev/kernel/read_messages";
