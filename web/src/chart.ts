import type { Unit } from "./data";
import { quantity } from "./text";

/** One reading: the largest and the mean load of each quantity. */
export interface Moment {
  unix_seconds: number;
  values: ([number, number] | null)[];
}

const WIDTH = 720;
const HEIGHT = 120;
const [LEFT, BASE, TOP] = [64, 96, 8];

/** Draws the history of the largest and the mean load; missing values are gaps. */
export function chart(view: HTMLElement, history: Moment[], index: number, name: string, unit: Unit): void {
  if (history.length < 2) return;
  let figure = view.querySelector<HTMLElement>("figure.history");
  if (!figure) {
    figure = document.createElement("figure");
    figure.className = "history";
    view.querySelector(".pictures")?.after(figure);
  }
  const first = history[0]?.unix_seconds ?? 0;
  const last = history.at(-1)?.unix_seconds ?? 1;
  const values = history.map((m) => m.values[index] ?? null);
  // Shares have an absolute scale: the noise of an idle network stays flat.
  const top = unit === "ratio" ? 1 : Math.max(...values.map((v) => v?.[0] ?? 0), 1e-30);
  const x = (m: Moment): number => LEFT + ((m.unix_seconds - first) / (last - first || 1)) * (WIDTH - LEFT - 8);
  const y = (value: number): number => BASE - Math.min(1, value / top) * (BASE - TOP);
  const line = (which: 0 | 1): string => {
    let pen = "M";
    return history
      .map((moment, i) => {
        const value = values[i]?.[which];
        const step = value === undefined ? "" : `${pen}${x(moment).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = value === undefined ? "M" : "L";
        return step;
      })
      .join("");
  };
  const time = (seconds: number): string => new Date(seconds * 1000).toLocaleTimeString();
  figure.innerHTML =
    `<figcaption>Over time: largest (bold) and mean</figcaption>` +
    `<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img">` +
    `<path class="grid" d="M${LEFT} ${TOP}H${WIDTH}"/><path class="axis" d="M${LEFT} ${BASE}H${WIDTH}"/>` +
    `<path class="mean" d="${line(1)}"/><path class="most" d="${line(0)}"/>` +
    `<text class="tick e" x="${LEFT - 6}" y="${TOP + 4}">${quantity(top, unit)}</text>` +
    `<text class="tick e" x="${LEFT - 6}" y="${BASE + 4}">0</text>` +
    `<text class="tick" x="${LEFT}" y="${BASE + 17}">${time(first)}</text>` +
    `<text class="tick e" x="${WIDTH}" y="${BASE + 17}">${time(last)}</text></svg>`;
  figure.querySelector("svg")?.setAttribute("aria-label", `${name}: largest and mean over time`);
}
