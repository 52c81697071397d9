/** The hidden mode of the binary that is the bridge of a run's network. */

export const BRIDGE = "__network-bridge";
