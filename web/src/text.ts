import type { Unit } from "./data";

const STEPS: Record<Unit, [number, number, string][]> = {
  seconds: [
    [0.9995, 1, " s"],
    [0.9995e-3, 1e3, " ms"],
    [0.9995e-6, 1e6, " µs"],
    [0, 1e9, " ns"],
  ],
  bytes: [
    [0.9995e15, 1e-15, " PB"],
    [0.9995e12, 1e-12, " TB"],
    [0.9995e9, 1e-9, " GB"],
    [0.9995e6, 1e-6, " MB"],
    [0.9995e3, 1e-3, " kB"],
    [0, 1, " B"],
  ],
  ratio: [[0, 100, " %"]],
  count: [
    [0.9995e12, 1e-12, " × 10¹²"],
    [0.9995e9, 1e-9, " × 10⁹"],
    [0.9995e6, 1e-6, " × 10⁶"],
    [0, 1, ""],
  ],
};

/** Formats so many significant digits, without an exponent. */
export function significant(value: number, digits = 3): string {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const rounded = Number(value.toPrecision(digits));
  const decimals = digits - 1 - Math.floor(Math.log10(Math.abs(rounded)));
  return rounded.toFixed(Math.min(12, Math.max(0, decimals)));
}

/** A value with its unit, in the form of the drawings. */
export function quantity(value: number, unit: Unit): string {
  if (Number.isNaN(value)) return "not known";
  if (value === 0 && unit === "seconds") return "0 s";
  if (unit === "count" && Math.abs(value) < 1e6) return Math.round(value).toLocaleString("en");
  const step = STEPS[unit].find(([from]) => Math.abs(value) >= from);
  const [, factor, text] = step ?? [0, 1, ""];
  return significant(value * factor) + text;
}

/** A change from before to after, in the form of the tables. */
export function change(before: number, after: number): string {
  if (Number.isNaN(before) || Number.isNaN(after)) return "";
  const most = Math.max(Math.abs(before), Math.abs(after));
  if (Math.abs(before - after) <= 5e-4 * most) return "unchanged";
  if (before === 0) return "new";
  const percent = (after / before - 1) * 100;
  const size = Math.abs(percent);
  return `${percent < 0 ? "−" : "+"}${significant(size, size < 10 ? 2 : 3)} %`;
}
