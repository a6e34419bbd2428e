import { clock, draw, figureAfter } from "./chart";
import { floats, type Report, type Signs, type Unit } from "./data";
import { FaultList, type Fault } from "./faults";
import { JobTable, words, type LinkJobs } from "./jobs";
import type { Selection } from "./selection";
import { Slider } from "./slider";

/** A reading from the server; `crates/serve/src/page.rs` writes it. */
interface News {
  sequence: number;
  unix_seconds: number;
  lead: string;
  source: string;
  error: string | null;
  views: {
    name: string;
    max: number;
    values: string;
    numbered: number[];
    picture: string;
    legend: string;
    bars: string;
  }[];
  signs: Signs;
  names: string[];
  history: { unix_seconds: number; values: ([number, number] | null)[] }[];
  dropped: number;
  /** Number of attributions of bytes to jobs; null without a list of jobs. */
  jobs: number | null;
  faults: Fault[];
}

/** The readings of one link; `crates/serve/src/past.rs` writes it. */
interface Series {
  unix_seconds: number[];
  quantities: { name: string; unit: Unit; values: (number | null)[] }[];
  by_job?: LinkJobs;
  /** Why there are no jobs. */
  jobs_error?: string;
}

/** Polling interval in milliseconds; longer while the page is hidden or the server does not answer. */
const EVERY = 2000;
const SLOWER = 15000;

type Changed = (view: HTMLElement, index: number) => void;

/** Follows the counters: polls for readings, and shows earlier ones on request. */
export function live(report: Report, selection: Selection, changed: Changed): void {
  const address = document.body.dataset["live"];
  if (address) new Follower(address, report, selection, changed).start();
}

class Follower {
  private readonly status = document.createElement("p");
  private readonly slider = new Slider((at) => void this.goTo(at));
  private readonly jobs: JobTable;
  private readonly faults: FaultList;
  private sequence = 0;
  /** The link whose readings are drawn. */
  private link: number | null = null;

  constructor(
    private readonly address: string,
    private readonly report: Report,
    selection: Selection,
    private readonly changed: Changed,
  ) {
    const name = (link: number): string => this.report.links.name[link] || `link ${link}`;
    this.jobs = new JobTable(address.replace(/state$/, "jobs"), selection, name);
    this.faults = new FaultList(selection);
    selection.onPin((target) => {
      this.link = target?.kind === "link" ? target.link : null;
      void this.curvesOfLink();
    });
  }

  start(): void {
    this.status.className = "live";
    this.status.setAttribute("role", "status");
    document.querySelector("header")?.append(this.status, this.slider.element);
    void this.poll();
  }

  private async poll(): Promise<void> {
    let pause = document.hidden ? SLOWER : EVERY;
    try {
      const news = await this.ask(`since=${this.sequence}`);
      if (news) {
        this.sequence = news.sequence;
        this.slider.extend(news.history, news.dropped);
        // The picture of an earlier time stays while new readings come.
        if (this.slider.at === null) this.show(news);
        this.say(news);
        await this.jobs.refresh(news.jobs, this.slider.at);
        await this.curvesOfLink();
      }
    } catch {
      this.status.textContent = "The server does not answer; these are its last values.";
      this.status.classList.add("failed");
      pause = SLOWER;
    }
    setTimeout(() => void this.poll(), pause);
  }

  private async ask(question: string): Promise<News | null> {
    const answer = await fetch(`${this.address}?${question}`);
    return answer.status === 200 ? ((await answer.json()) as News) : null;
  }

  /** Shows the reading at a time, or the latest one. */
  private async goTo(at: number | null): Promise<void> {
    const news = await this.ask(at === null ? "" : `at=${at}`).catch(() => null);
    // The user may have moved on while this answer came.
    if (!news || this.slider.at !== at) return;
    this.show(news);
    this.say(news);
    await this.jobs.refresh(news.jobs, at);
    await this.curvesOfLink();
  }

  private say(news: News): void {
    const at = this.slider.at;
    const latest = news.history.at(-1);
    // The sequence counts attributions and failures too.
    const readings = (news.history.length + news.dropped).toLocaleString("en");
    const words =
      at === null
        ? `Live: reading ${readings}, ${latest ? clock(latest.unix_seconds) : ""}`
        : `Earlier: ${clock(at)}. Newer readings are available.`;
    this.status.textContent = news.error ?? words;
    this.status.classList.toggle("failed", news.error !== null);
    this.status.classList.toggle("earlier", at !== null);
  }

  private show(news: News): void {
    const lead = document.querySelector(".lead");
    if (lead) lead.textContent = news.lead;
    const source = document.querySelector("#readings");
    if (source) source.textContent = news.source;
    this.report.signs = news.signs;
    this.faults.show(news.faults);
    for (const [index, view] of this.report.views.entries()) {
      const element = document.querySelector<HTMLElement>(`.view[data-view="${index}"]`);
      const fresh = news.views.find((v) => v.name === view.name);
      if (!element) continue;
      // A quantity that was not read at this time has no picture.
      element.classList.toggle("absent", !fresh);
      if (!fresh) continue;
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
      this.curves(element, news, view.name, view.unit);
      this.changed(element, index);
    }
  }

  /** The largest and the mean load over time. */
  private curves(element: HTMLElement, news: News, name: string, unit: Unit): void {
    if (news.history.length < 2) return;
    const index = news.names.indexOf(name);
    const values = (which: 0 | 1) => news.history.map((m) => m.values[index]?.[which] ?? null);
    draw(figureAfter(element.querySelector(".pictures"), element, "history"), {
      caption: "Over time: largest (bold) and mean",
      label: `${name}: largest and mean over time`,
      unit,
      unixSeconds: news.history.map((m) => m.unix_seconds),
      lines: [
        { style: "mean", values: values(1) },
        { style: "most", values: values(0) },
      ],
      at: this.slider.at,
    });
  }

  /** The readings of the pinned link over time, below the first picture. */
  private async curvesOfLink(): Promise<void> {
    const view = document.querySelector<HTMLElement>('.view[data-view="0"]');
    const link = this.link;
    if (!view) return;
    if (link === null) {
      view.querySelector(".of-link")?.remove();
      return;
    }
    const at = this.slider.at;
    const time = at === null ? "" : `&at=${at}`;
    const answer = await fetch(`${this.address.replace(/state$/, "link")}?id=${link}${time}`).catch(() => null);
    if (answer?.status !== 200 || this.link !== link || this.slider.at !== at) return;
    const series = (await answer.json()) as Series;
    let box = view.querySelector<HTMLElement>(".of-link");
    if (!box) {
      box = document.createElement("div");
      box.className = "of-link";
      view.querySelector(".pictures")?.after(box);
    }
    const figures = series.quantities.map(({ name, unit, values }) => {
      const figure = document.createElement("figure");
      figure.className = "history";
      draw(figure, {
        caption: `${this.report.links.name[link] ?? `link ${link}`}: ${name}`,
        label: `${name} of the selected link over time`,
        unit,
        unixSeconds: series.unix_seconds,
        lines: [{ style: "most", values }],
        at: this.slider.at,
      });
      return figure;
    });
    box.replaceChildren(...figures);
    if (series.by_job || series.jobs_error) {
      const line = document.createElement("p");
      line.className = "jobs-of-link";
      line.textContent = series.by_job ? words(series.by_job) : `Jobs: ${series.jobs_error}`;
      box.prepend(line);
    }
  }
}
