/** Refuses characters that a reader does not see, or that change the order of what they see. */

import { SyscallError } from "rnix/plugin";

/** Control characters but tab and line feed; line separators; characters that hide or reorder text; unpaired surrogates. */
const HIDDEN =
  /(?![\t\n\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]|[\u115f\u1160\u3164\uffa0]|\u034f|\u17b4|\u17b5/gu;
/** Joiners are part of words and emoji, and hide nothing there. */
const LOOSE_JOINER =
  /(?<![\p{L}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}])(?<!\ufe0f)[\u200c\u200d]|[\u200c\u200d](?![\p{L}\p{M}\p{Extended_Pictographic}])/gu;
/** The flags of England, Scotland and Wales are written with tags. */
const FLAG = /\u{1f3f4}[\u{e0020}-\u{e007e}]{1,8}\u{e007f}/gu;

/** Fails with INVALID, which names the character and its line. */
export function requireVisible(what: string, text: string): void {
  const plain = text.replace(FLAG, "").replaceAll("\r\n", "\n");
  for (const pattern of [HIDDEN, LOOSE_JOINER]) {
    pattern.lastIndex = 0;
    const found = pattern.exec(plain);
    if (!found) continue;
    const code = (found[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    const line = plain.slice(0, found.index).split("\n").length;
    throw new SyscallError(
      "INVALID",
      `SkillManage: ${what} has the invisible character U+${code} in line ${line}. Write it without.`,
    );
  }
}
