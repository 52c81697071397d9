/** A choice of one of some values, with its label. */

interface SelectProps {
  label: string;
  value: string | number;
  /** Values, or values with what is shown for them. */
  options: readonly (string | number | readonly [value: string | number, title: string])[];
  pick(value: string): void;
}

export function Select({ label, value, options, pick }: SelectProps) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={({ currentTarget }) => pick(currentTarget.value)}>
        {options.map((one) => {
          const [option, title] = typeof one === "object" ? one : [one, String(one)];
          return (
            <option key={option} value={option}>
              {title}
            </option>
          );
        })}
      </select>
    </label>
  );
}
