import type { Selection, Target } from "./selection";
import { quantity } from "./text";

/** Jobs of a reading; `crates/serve/src/jobs.rs` writes it. */
interface Jobs {
  jobs: { job: string; nodes: number[]; bytes: number; links: [number, number | null][] }[];
  notes: string[];
}

/** Jobs of a link. */
export interface LinkJobs {
  carried_bytes: number | null;
  by_job: { job: string; bytes: number; least_bytes: number; most_bytes: number }[];
  unexplained_bytes: number | null;
}

/** The table of jobs: select one to see its nodes and its links. */
export class JobTable {
  private readonly section = document.createElement("section");
  private readonly body = document.createElement("tbody");
  private readonly note = document.createElement("p");
  private readonly filter = document.createElement("input");
  /** The attribution that is shown: its number, or the time of an earlier reading. */
  private seen = "";
  private jobs: Jobs["jobs"] = [];

  constructor(
    private readonly address: string,
    private readonly selection: Selection,
    private readonly linkName: (link: number) => string,
  ) {
    this.section.id = "jobs";
    const title = document.createElement("h2");
    title.textContent = "Jobs";
    const tools = document.createElement("div");
    tools.className = "tools";
    const label = document.createElement("label");
    this.filter.type = "search";
    this.filter.placeholder = "name of a job";
    this.filter.addEventListener("input", () => this.fill());
    label.append("Filter ", this.filter);
    tools.append(label);
    const table = document.createElement("table");
    table.className = "jobs";
    const caption = document.createElement("caption");
    caption.textContent = "Most bytes first; select a job to see its nodes and links";
    const head = document.createElement("thead");
    const row = document.createElement("tr");
    const numbers = ["Nodes", "Bytes on links", "Share of it"];
    for (const text of ["Job", "Nodes", "Bytes on links", "Its busiest link", "Share of it"]) {
      row.append(cell(text, numbers.includes(text), "th"));
    }
    head.append(row);
    table.append(caption, head, this.body);
    const scroll = document.createElement("div");
    scroll.className = "scroll";
    scroll.append(table);
    this.note.className = "note";
    this.section.append(title, tools, scroll, this.note);
    this.body.addEventListener("click", (event) => this.choose(event));
    this.body.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.choose(event);
    });
    selection.onPin((target) => this.mark(target));
  }

  /** Reads the list again if it is newer, or of another time. */
  async refresh(attributions: number | null, at: number | null): Promise<void> {
    const wanted = at === null ? String(attributions) : `at=${at}`;
    if (attributions === null || wanted === this.seen) return;
    const answer = await fetch(at === null ? this.address : `${this.address}?${wanted}`).catch(() => null);
    if (!answer || (answer.status !== 200 && at === null)) return;
    const none = async (): Promise<Jobs> => ({ jobs: [], notes: [await answer.text()] });
    const list = answer.status === 200 ? ((await answer.json()) as Jobs) : await none();
    this.seen = wanted;
    this.jobs = list.jobs;
    this.note.textContent = list.notes.join(". ");
    if (!this.section.isConnected) document.querySelector("#links")?.before(this.section);
    this.fill();
  }

  private fill(): void {
    const wanted = this.filter.value.trim().toLowerCase();
    const rows = this.jobs.flatMap((job, index) => {
      if (!job.job.toLowerCase().includes(wanted)) return [];
      const row = document.createElement("tr");
      row.tabIndex = 0;
      row.dataset["job"] = String(index);
      const busiest = job.links[0];
      const share = busiest?.[1] ?? null;
      row.append(
        cell(job.job, false, "th", "row"),
        cell(job.nodes.length.toLocaleString("en"), true),
        cell(quantity(job.bytes, "bytes"), true),
        cell(busiest ? this.linkName(busiest[0]) : "none", false),
        cell(share === null ? "" : quantity(share, "ratio"), true),
      );
      return [row];
    });
    this.body.replaceChildren(...rows);
  }

  private choose(event: Event): void {
    const row = event.target instanceof Element ? event.target.closest<HTMLElement>("tr[data-job]") : null;
    const job = row ? this.jobs[Number(row.dataset["job"])] : undefined;
    if (!job) return;
    this.selection.pin({ kind: "job", job: job.job, links: job.links.map(([link]) => link), nodes: job.nodes });
  }

  private mark(target: Target | null): void {
    for (const row of this.body.querySelectorAll<HTMLElement>("tr")) {
      const job = this.jobs[Number(row.dataset["job"])];
      row.classList.toggle("lit", target?.kind === "job" && job?.job === target.job);
    }
  }
}

/** The jobs of a link in a line: share of its bytes with the interval that is certain. */
export function words(of: LinkJobs): string {
  const carried = of.carried_bytes;
  if (carried === null || carried <= 0) return "Jobs: the link carried nothing that was read.";
  const share = (bytes: number): string => quantity(bytes / carried, "ratio");
  const jobs = of.by_job.slice(0, 8).map((j) => `${j.job} ${share(j.bytes)} (${share(j.least_bytes)} to ${share(j.most_bytes)})`);
  if (of.by_job.length > 8) jobs.push(`${of.by_job.length - 8} more`);
  const rest = of.unexplained_bytes ?? 0;
  if (rest > 0.005 * carried) jobs.push(`of no listed job ${share(rest)}`);
  return `Jobs: ${jobs.join(", ") || "none"}.`;
}

function cell(text: string, number: boolean, tag: "td" | "th" = "td", scope = "col"): HTMLElement {
  const element = document.createElement(tag);
  element.textContent = text;
  if (number) element.className = "n";
  if (tag === "th") element.setAttribute("scope", scope);
  return element;
}
