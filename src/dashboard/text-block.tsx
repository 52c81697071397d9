/** A text of a run, capped, with "show the rest"; a patch is coloured by line. */

import { useSignal } from "@preact/signals";

/** Characters that are shown at once. */
const SHOWN = 20_000;

interface TextProps {
  title?: string;
  text: string;
  patch?: boolean;
}

export function Text({ title, text, patch }: TextProps) {
  const whole = useSignal(false);
  const cut = !whole.value && text.length > SHOWN;
  const shown = cut ? text.slice(0, SHOWN) : text;
  return (
    <>
      {title !== undefined && <h3>{title}</h3>}
      <pre>{patch ? shown.split("\n").map((line, i) => <Line key={i} line={line} />) : shown}</pre>
      {cut && (
        <button type="button" onClick={() => (whole.value = true)}>
          Show the other {text.length - SHOWN} characters
        </button>
      )}
    </>
  );
}

const CLASSES: Record<string, string> = { "+": "added", "-": "removed", "@": "hunk" };

function Line({ line }: { line: string }) {
  return <span class={CLASSES[line[0] ?? ""]}>{`${line}\n`}</span>;
}
