/** Attempts of a confined program to leave its sandbox: each names the mechanism that stops it. */

type Mechanism =
  /** The path is not mounted: the home, /tmp and /run are private. */
  | "private view"
  | "read-only mount"
  /** A mount can't be renamed, removed or replaced. */
  | "busy mount"
  | "empty mount"
  | "PID namespace"
  | "IPC namespace"
  | "no rights"
  | "private devices"
  /** The daemon decides by the caller's ancestors. */
  | "daemon";

/** A line of shell that ends with 0 where the sandbox has failed. */
export type Attempt = readonly [title: string, by: Mechanism, line: string];

/**
 * Variables: SECRET is a text that each hidden file contains; OUT is a folder outside; DATA and CONFIG are Rnix's own
 * folders; OTHER_PID is a process of the user.
 */
export const ATTEMPTS: readonly Attempt[] = [
  // Secrets of the home.
  ...[
    ".ssh/id_ed25519",
    ".gnupg/key",
    ".aws/credentials",
    ".azure/token",
    ".config/gcloud/token",
    ".config/gh/hosts.yml",
    ".config/google-chrome/Cookies",
    ".mozilla/cookies.sqlite",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".bash_history",
    ".password-store/a",
    ".unknown-tool/token",
    ".cargo/credentials.toml",
  ].map((path): Attempt => [`read ~/${path}`, "private view", `grep -q "$SECRET" ~/${path}`]),
  ["read a key by a link of the project", "private view", `ln -s ~/.ssh k1; grep -q "$SECRET" k1/id_ed25519`],
  ["read a key by a link of the user", "private view", `grep -q "$SECRET" ~/keys/id_ed25519`],
  ["link a key hard", "private view", `ln ~/.ssh/id_ed25519 k2 && grep -q "$SECRET" k2`],
  ["find a key in the whole system", "private view", `find / -xdev -name id_ed25519 2>/dev/null | grep -q .`],
  [
    "read the home of the first process",
    "private view",
    `grep -q "$SECRET" /proc/1/root$HOME/.ssh/id_ed25519`,
  ],
  [
    "read the home by another process's root",
    "PID namespace",
    `grep -qs "$SECRET" /proc/$OTHER_PID/root$HOME/.ssh/id_ed25519`,
  ],
  [
    "read the home by a process's folder",
    "private view",
    `for d in /proc/[0-9]*/cwd /proc/[0-9]*/root; do grep -qs "$SECRET" $d$HOME/.ssh/id_ed25519 && exit 0; done; exit 1`,
  ],
  [
    "read a key by an inherited descriptor",
    "private view",
    `for f in /proc/self/fd/*; do [ -d $f ] && grep -qrs "$SECRET" $f/ && exit 0; done; exit 1`,
  ],
  // Rnix's own folders.
  ["read the settings", "empty mount", `ls "$CONFIG" | grep -q .`],
  ["read the keys of Rnix", "empty mount", `grep -q "$SECRET" "$CONFIG/env"`],
  [
    "write the settings",
    "empty mount",
    `echo 'sandbox: off' >>"$CONFIG/config.yaml" && grep -q "$SECRET" "$CONFIG/config.yaml"`,
  ],
  ["read the data folder", "empty mount", `ls "$DATA" | grep -q .`],
  ["read records of runs", "empty mount", `find .rnix/data -name '*.jsonl' | grep -q .`],
  [
    "write a record",
    "empty mount",
    `for f in .rnix/data/steps/*/*.json*; do [ -s "$f" ] && echo x >>"$f" && exit 0; done; exit 1`,
  ],
  ["trust the project", "daemon", `rnix trust`],
  [
    "start a run without a sandbox",
    "daemon",
    `rnix spawn --no-stdin --sandbox off --output json "a child" | grep -q '"exit_code":0,.*"sandbox":"none"'`,
  ],
  ["end the daemon", "daemon", `rnix daemon stop`],
  ["bind the daemon's socket", "private view", `ls "$XDG_RUNTIME_DIR/rnix" | grep -q lock`],
  // What runs later with the user's rights.
  ...[
    ".git/config",
    ".git/hooks/pre-commit",
    ".rnix/agent.yaml",
    ".mcp.json",
    ".claude/settings.json",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    "agents/a/agent.yaml",
    "skills/s/SKILL.md",
    "plugins/p.ts",
    ".vscode/tasks.json",
    ".envrc",
    ".husky/pre-commit",
  ].map((path): Attempt => [`write ${path}`, "read-only mount", `echo x >>${path}`]),
  ["add a hook", "read-only mount", "echo x >.git/hooks/post-checkout"],
  ["add a workflow", "read-only mount", "echo x >.github/workflows/more.yml"],
  ["remove the hooks", "read-only mount", "rm -r .git/hooks"],
  ["rename the hooks", "busy mount", "mv .git/hooks .git/hooks-old"],
  ["rename .git", "busy mount", "mv .git git-old"],
  ["rename .github", "busy mount", "mv .github github-old"],
  ["remove .github", "busy mount", "rm -rf .github; [ ! -e .github/workflows/ci.yml ]"],
  ["replace git's configuration", "busy mount", "echo x >c && mv c .git/config"],
  ["set a hook folder by git", "busy mount", "git config core.hooksPath /tmp"],
  ["replace .mcp.json by a link", "busy mount", "ln -sf /tmp/x .mcp.json"],
  ["replace .mcp.json by a hard link", "busy mount", "echo x >m && ln -f m .mcp.json"],
  ["write the hook of a submodule", "read-only mount", "echo x >.git/modules/sub/hooks/post-merge"],
  ["write the configuration of a submodule", "read-only mount", "echo x >>.git/modules/sub/config"],
  ["write a hook by a hard link", "read-only mount", "ln .git/hooks/pre-commit h && echo x >>h"],
  [
    "open a hook again for writing",
    "read-only mount",
    "exec 9<.git/hooks/pre-commit; echo x >/proc/self/fd/9",
  ],
  ["change the mode of a hook", "read-only mount", "chmod 777 .git/hooks/pre-commit"],
  ["mount over a protected file", "no rights", "mount --bind README.md .mcp.json"],
  ["unmount a protected file", "no rights", "umount .mcp.json"],
  [
    "unmount it in a namespace of its own",
    "no rights",
    `unshare -Urm sh -c 'umount .mcp.json && echo x >>.mcp.json'`,
  ],
  [
    "unmount the home in a namespace of its own",
    "no rights",
    `unshare -Urm sh -c 'umount -l "$HOME"; grep -q "$SECRET" ~/.ssh/id_ed25519'`,
  ],
  ["make a mount writable again", "no rights", "mount -o remount,rw,bind /usr && touch /usr/rnix-attempt"],
  // Files outside.
  ["write a file outside", "private view", `grep -q theirs "$OUT/file" && echo x >>"$OUT/file"`],
  ["write a file of the home", "read-only mount", "echo x >>~/notes.txt"],
  ["write git's settings", "read-only mount", "echo x >>~/.gitconfig"],
  // A file of this name in the private home is another one.
  ["write the shell's start file", "private view", `grep -q "$SECRET" ~/.bashrc && echo x >>~/.bashrc`],
  ["write below /usr", "read-only mount", "touch /usr/rnix-attempt"],
  ["write below /etc", "read-only mount", "touch /etc/rnix-attempt"],
  ["write below /var", "read-only mount", "touch /var/rnix-attempt"],
  ["schedule by cron.d", "read-only mount", "echo '* * * * * root true' >/etc/cron.d/rnix-attempt"],
  [
    "schedule by a crontab",
    "read-only mount",
    "mkdir -p /var/spool/cron/crontabs && echo x >/var/spool/cron/crontabs/rnix-attempt && [ -e /proc/1/root/var/spool/cron/crontabs/root ]",
  ],
  ["read the temporary files of others", "private view", `find /tmp /var/tmp -name 'of-another' | grep -q .`],
  [
    "write by a link out of the project",
    "private view",
    `ln -s "$OUT" o; grep -q theirs o/file && echo x >>o/file`,
  ],
  ["write through a FIFO of the user", "private view", `[ -p "$OUT/fifo" ] && echo x >"$OUT/fifo"`],
  ["read the password hashes", "no rights", "head -c1 /etc/shadow | grep -q ."],
  // Sockets of services.
  ["find Docker's socket", "private view", "[ -S /run/docker.sock ] || [ -S /var/run/docker.sock ]"],
  ["find the system's D-Bus", "private view", "[ -S /run/dbus/system_bus_socket ]"],
  ["find the session's D-Bus", "private view", `[ -S "$XDG_RUNTIME_DIR/bus" ]`],
  ["find an agent with keys", "private view", `[ -S "$XDG_RUNTIME_DIR/ssh-agent" ]`],
  ["find systemd's socket", "private view", "[ -S /run/systemd/private ] || [ -d /run/systemd/system ]"],
  ["use systemd-run", "private view", "systemd-run --user true"],
  ["use at", "private view", "echo true | at now"],
  ["use a crontab", "private view", "echo '* * * * * true' | crontab -"],
  ["find a terminal of tmux", "private view", "ls /tmp/tmux-* | grep -q ."],
  // Processes.
  [
    "see a process of the user",
    "PID namespace",
    `grep -qs rnix /proc/$OTHER_PID/comm || ps ax | grep -q "[s]leep 98765"`,
  ],
  [
    "signal a process of the user",
    "PID namespace",
    "kill -0 $OTHER_PID && grep -qs sleep /proc/$OTHER_PID/comm",
  ],
  ["read another's environment", "PID namespace", `grep -qsa "OF_ANOTHER" /proc/[0-9]*/environ`],
  ["see the daemon", "PID namespace", "ps ax | grep -q '[_]_daemon'"],
  [
    "signal every process",
    "PID namespace",
    "(trap '' TERM; kill -TERM -1); [ -d /proc/$OTHER_PID ] && grep -qs 98765 /proc/$OTHER_PID/cmdline",
  ],
  ["see shared memory", "IPC namespace", "ipcs -m | grep -q 0x7261"],
  // Devices and rights.
  ["make a block device", "no rights", "mknod blk b 8 0"],
  ["read a disk", "private devices", "ls /dev | grep -qE '^(sd|vd|nvme|loop|dm-)'"],
  ["read the kernel's memory", "private devices", "head -c1 /dev/mem || head -c1 /proc/kcore"],
  [
    "write a setting of the kernel",
    "read-only mount",
    "cat /proc/sys/kernel/core_pattern >was && cat was >/proc/sys/kernel/core_pattern",
  ],
  ["use SysRq", "read-only mount", "echo h >/proc/sysrq-trigger"],
  ["write below /sys", "read-only mount", "mkdir /sys/fs/cgroup/rnix-attempt"],
  ["mount a file system", "no rights", "mount -t tmpfs x /mnt"],
  [
    "change the root",
    "no rights",
    "chroot /proc/1/root true && [ -e /proc/1/root/old_root/etc ]  && mount -t tmpfs x /mnt",
  ],
  ["gain rights by a setuid program", "no rights", "grep -q 'NoNewPrivs:.*0' /proc/self/status"],
  ["load a module", "no rights", "modprobe dummy"],
  ["set the clock", "no rights", "date -s '2001-01-01'"],
  ["raise a hard limit", "no rights", "ulimit -Hn 10000000"],
  ["name the machine", "no rights", "hostname rnix-attempt"],
  ["leave by nsenter", "PID namespace", `nsenter -t $OTHER_PID -m true`],
  [
    "keep rights to administer",
    "no rights",
    `[ $(( 0x$(awk '/CapEff/{print $2}' /proc/self/status) & 0x200000 )) -ne 0 ]`,
  ],
];
