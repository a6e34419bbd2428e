import { clock } from "./chart";

/** Chooses one of the kept readings by its time, or the latest. */
export class Slider {
  readonly element = document.createElement("div");
  /** The chosen time in seconds since 1970; `null` for the latest reading. */
  at: number | null = null;
  private readonly range = document.createElement("input");
  private readonly button = document.createElement("button");
  private readonly words = document.createElement("output");
  private times: number[] = [];

  constructor(private readonly chosen: (at: number | null) => void) {
    this.element.className = "past";
    this.element.hidden = true;
    this.range.type = "range";
    this.range.min = "0";
    this.range.setAttribute("aria-label", "Time of the reading");
    this.button.type = "button";
    this.button.textContent = "Latest";
    this.element.append(this.range, this.words, this.button);
    this.range.addEventListener("input", () => this.choose(Number(this.range.value)));
    this.button.addEventListener("click", () => this.choose(this.times.length - 1));
  }

  /** Takes the readings that are kept now; the chosen time stays. */
  extend(history: { unix_seconds: number }[], dropped: number): void {
    this.times = history.map((m) => m.unix_seconds);
    this.element.hidden = this.times.length < 2;
    this.range.max = String(this.times.length - 1);
    this.range.title = dropped > 0 ? `${dropped} earlier readings are no longer kept` : "";
    this.mark();
  }

  private choose(index: number): void {
    const at = index >= this.times.length - 1 ? null : (this.times[index] ?? null);
    if (at === this.at) return;
    this.at = at;
    this.mark();
    this.chosen(at);
  }

  private mark(): void {
    const { at, times } = this;
    // Thinning may have dropped the chosen reading: the one before it is shown.
    const later = at === null ? -1 : times.findIndex((t) => t > at);
    const index = later < 0 ? times.length - 1 : Math.max(0, later - 1);
    this.range.value = String(index);
    const text = clock(at ?? times.at(-1) ?? 0);
    this.range.setAttribute("aria-valuetext", text);
    this.words.textContent = text;
    this.button.disabled = at === null;
  }
}
