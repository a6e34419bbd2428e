import { floats, type Report, type Signs } from "./data";
import { chart, type Moment } from "./chart";

/** Changes from the server; `crates/view/src/report/live` writes them. */
interface News {
  sequence: number;
  lead: string;
  source: string;
  error: string | null;
  views: {
    max: number;
    values: string;
    numbered: number[];
    picture: string;
    legend: string;
    bars: string;
  }[];
  signs: Signs;
  history: Moment[];
}

/** Polling interval in milliseconds; longer while the page is hidden or the server does not answer. */
const EVERY = 2000;
const SLOWER = 15000;

/** Follows the counters: polls for changes and updates the page. */
export function live(report: Report, changed: (view: HTMLElement, index: number) => void): void {
  const address = document.body.dataset["live"];
  if (!address) return;
  const status = document.createElement("p");
  status.className = "live";
  status.setAttribute("role", "status");
  document.querySelector("header")?.append(status);
  let sequence = 0;

  const ask = async (): Promise<void> => {
    let pause = document.hidden ? SLOWER : EVERY;
    try {
      const answer = await fetch(`${address}?since=${sequence}`);
      if (answer.status === 200) {
        const news = (await answer.json()) as News;
        sequence = news.sequence;
        show(report, news, changed);
        status.textContent = news.error ?? `Live: reading ${sequence}, ${clock(news.history)}`;
        status.classList.toggle("failed", news.error !== null);
      }
    } catch {
      status.textContent = "The server does not answer; these are its last values.";
      status.classList.add("failed");
      pause = SLOWER;
    }
    setTimeout(() => void ask(), pause);
  };
  void ask();
}

function clock(history: Moment[]): string {
  const last = history.at(-1);
  return last ? new Date(last.unix_seconds * 1000).toLocaleTimeString() : "";
}

function show(report: Report, news: News, changed: (view: HTMLElement, index: number) => void): void {
  const lead = document.querySelector(".lead");
  if (lead) lead.textContent = news.lead;
  report.signs = news.signs;
  for (const [index, fresh] of news.views.entries()) {
    const view = report.views[index];
    const element = document.querySelector<HTMLElement>(`.view[data-view="${index}"]`);
    if (!view || !element) continue;
    view.before = floats(fresh.values);
    view.max = fresh.max;
    view.numbered.before = fresh.numbered;
    // The fragments come from the same program as the page, which escapes every name.
    const parts: [string, string][] = [
      [".pictures svg.hb", fresh.picture],
      [".legend", fresh.legend],
      [".columns", fresh.bars],
    ];
    for (const [selector, html] of parts) {
      const part = element.querySelector(selector);
      if (part) part.innerHTML = html;
    }
    chart(element, news.history, index, view.name, view.unit);
    changed(element, index);
  }
}
