import type { Unit } from "./data";
import { quantity } from "./text";

/** Curves over time; missing values are gaps. */
export interface Curves {
  caption: string;
  label: string;
  unit: Unit;
  unixSeconds: number[];
  lines: { style: "most" | "mean"; values: (number | null)[] }[];
  /** A marked moment. */
  at: number | null;
}

const WIDTH = 720;
const HEIGHT = 120;
const [LEFT, BASE, TOP] = [64, 96, 8];

/** A time of day, with the date if it is not today. */
export function clock(seconds: number): string {
  const time = new Date(seconds * 1000);
  const today = time.toDateString() === new Date().toDateString();
  return today ? time.toLocaleTimeString() : time.toLocaleString();
}

/** Draws curves into a figure. */
export function draw(figure: HTMLElement, { caption, label, unit, unixSeconds, lines, at }: Curves): void {
  const first = unixSeconds[0] ?? 0;
  const last = unixSeconds.at(-1) ?? 1;
  // Shares have an absolute scale: the noise of an idle network stays flat.
  const most = Math.max(...lines.flatMap((l) => l.values.map((v) => v ?? 0)), 1e-30);
  const top = unit === "ratio" ? 1 : most;
  const x = (time: number): number => LEFT + ((time - first) / (last - first || 1)) * (WIDTH - LEFT - 8);
  const y = (value: number): number => BASE - Math.min(1, value / top) * (BASE - TOP);
  const path = (values: (number | null)[]): string => {
    let pen = "M";
    return values
      .map((value, i) => {
        const step = value === null ? "" : `${pen}${x(unixSeconds[i] ?? first).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = value === null ? "M" : "L";
        return step;
      })
      .join("");
  };
  const mark = at === null ? "" : `<path class="axis" d="M${x(at).toFixed(1)} ${TOP}V${BASE}"/>`;
  const curves = lines.map((l) => `<path class="${l.style}" d="${path(l.values)}"/>`).join("");
  figure.innerHTML =
    `<figcaption></figcaption>` +
    `<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img">` +
    `<path class="grid" d="M${LEFT} ${TOP}H${WIDTH}"/><path class="axis" d="M${LEFT} ${BASE}H${WIDTH}"/>` +
    `${mark}${curves}` +
    `<text class="tick e" x="${LEFT - 6}" y="${TOP + 4}">${quantity(top, unit)}</text>` +
    `<text class="tick e" x="${LEFT - 6}" y="${BASE + 4}">0</text>` +
    `<text class="tick" x="${LEFT}" y="${BASE + 17}">${clock(first)}</text>` +
    `<text class="tick e" x="${WIDTH}" y="${BASE + 17}">${clock(last)}</text></svg>`;
  // Names come from a network: they are text, never markup.
  figure.querySelector("figcaption")?.replaceChildren(caption);
  figure.querySelector("svg")?.setAttribute("aria-label", label);
}

/** The figure of a class after an element, made if it does not exist. */
export function figureAfter(element: Element | null, parent: ParentNode, style: string): HTMLElement {
  const found = parent.querySelector<HTMLElement>(`figure.${style}`);
  if (found) return found;
  const figure = document.createElement("figure");
  figure.className = style;
  element?.after(figure);
  return figure;
}
