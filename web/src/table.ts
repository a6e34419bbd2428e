import { shown, type Report, type Side, type View } from "./data";
import type { Selection, Target } from "./selection";
import { change } from "./text";

const PAGE = 30;

interface Row {
  link: number;
  name: string;
  to: string;
  kind: string;
}

type Value = string | number;

/** Sorting, filtering and highlighting of the table of links. */
export class LinkTable {
  private readonly body: HTMLTableSectionElement;
  private rows: Row[];
  private key = "";
  private down = true;
  private shown = PAGE;
  private filter = "";
  /** Which links are searched, if the page does not know the names of all. */
  private readonly scope: string;

  constructor(
    private readonly table: HTMLTableElement,
    private readonly report: Report,
    private readonly selection: Selection,
  ) {
    this.body = table.tBodies[0] ?? table.createTBody();
    this.scope = scope(report.links.name);
    this.rows = collect(report);
    this.heads();
    this.tools();
    this.listen();
    this.sort("worst");
  }

  /** Updates the loads, in the order chosen by the user. */
  refresh(): void {
    this.rows = collect(this.report);
    this.order();
  }

  private heads(): void {
    for (const head of this.table.querySelectorAll<HTMLTableCellElement>("th[data-key]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => this.sort(head.dataset["key"] ?? ""));
    }
  }

  private tools(): void {
    const tools = document.querySelector<HTMLElement>("#links .tools");
    const filter = document.querySelector<HTMLInputElement>("#filter");
    if (tools) tools.hidden = false;
    filter?.addEventListener("input", () => {
      this.filter = filter.value.trim().toLowerCase();
      this.shown = PAGE;
      this.draw();
    });
    document.querySelector("#more")?.addEventListener("click", () => {
      this.shown += 10 * PAGE;
      this.draw();
    });
  }

  private listen(): void {
    const { body, selection } = this;
    body.addEventListener("pointerover", (e) => selection.point(targetOf(e)));
    body.addEventListener("pointerleave", () => selection.point(null));
    body.addEventListener("click", (e) => selection.pin(targetOf(e)));
    body.addEventListener("focusin", (e) => selection.point(targetOf(e)));
    body.addEventListener("focusout", () => selection.point(null));
    body.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" && e.key !== " ") return;
      e.preventDefault();
      selection.pin(targetOf(e));
    });
    selection.onChange((target) => {
      for (const row of body.rows) {
        const on = target?.kind === "link" && Number(row.dataset["link"]) === target.link;
        row.classList.toggle("lit", on);
      }
    });
  }

  /** Sorts by a column; the same column again reverses the order. Loads begin with the largest. */
  private sort(key: string): void {
    const text = key === "name" || key === "to" || key === "kind";
    this.down = key === this.key ? !this.down : !text;
    this.key = key;
    this.order();
  }

  private order(): void {
    const { key } = this;
    if (key === "worst") this.rows = worst(this.rows, this.report.views);
    const sign = this.down ? -1 : 1;
    if (key !== "worst") this.rows.sort((a, b) => {
      const [x, y] = [this.value(a, key), this.value(b, key)];
      const missing = Number(Number.isNaN(x)) - Number(Number.isNaN(y));
      return missing || sign * compare(x, y) || a.link - b.link;
    });
    for (const head of this.table.querySelectorAll<HTMLTableCellElement>("th[data-key]")) {
      const order = this.down ? "descending" : "ascending";
      if (head.dataset["key"] === key) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    }
    this.draw();
  }

  /** Sort key of a row: a text column, or before, after or change of a view by number. */
  private value(row: Row, key: string): Value {
    if (key === "name" || key === "to" || key === "kind") return row[key];
    const view = this.report.views[Number(key.slice(1))];
    const before = view?.before[row.link] ?? NaN;
    const after = view?.after?.[row.link] ?? NaN;
    if (key.startsWith("b")) return before;
    if (key.startsWith("a")) return after;
    return before > 0 ? after / before : Infinity;
  }

  private draw(): void {
    const matches = (r: Row): boolean =>
      `${r.name} ${r.to} ${r.kind}`.toLowerCase().includes(this.filter);
    const found = this.filter ? this.rows.filter(matches) : this.rows;
    this.body.replaceChildren(...found.slice(0, this.shown).map((r) => this.row(r)));
    const output = document.querySelector("#shown");
    const count = found.length.toLocaleString("en");
    const shown = Math.min(this.shown, found.length);
    if (output) output.textContent = `${shown} of ${count} links with load or errors${this.scope}`;
    const more = document.querySelector<HTMLElement>("#more");
    if (more) more.hidden = found.length <= this.shown;
  }

  private row(row: Row): HTMLTableRowElement {
    const element = document.createElement("tr");
    element.dataset["link"] = String(row.link);
    element.tabIndex = 0;
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = row.name;
    element.append(head, cell(row.to), cell(row.kind));
    for (const view of this.report.views) {
      element.append(value(this.report, view, "before", row.link));
      if (view.after) {
        const difference = change(view.before[row.link] ?? NaN, view.after[row.link] ?? NaN);
        element.append(value(this.report, view, "after", row.link), cell(difference, "n"));
      }
    }
    return element;
  }
}

/** The part of the links whose names the page has; empty if it has all. */
function scope(names: string[]): string {
  const known = names.filter(Boolean).length;
  if (known === names.length) return "";
  const [some, all] = [known, names.length].map((n) => n.toLocaleString("en"));
  return `, among the ${some} of ${all} links that this page knows by name; hopbyte links has all`;
}

/** Every named link with a load on some side of some view. */
function collect(report: Report): Row[] {
  const { links, routers, nodes, views } = report;
  const rows: Row[] = [];
  for (const [link, name] of links.name.entries()) {
    const loaded = views.some((v) => (v.before[link] ?? 0) > 0 || (v.after?.[link] ?? 0) > 0);
    if (!name || !loaded) continue;
    const to = links.to[link] ?? -1;
    const host = to < -1 ? nodes.name[-2 - to] : undefined;
    const kind = links.kinds[links.kind[link] ?? -1] ?? "";
    rows.push({ link, name, to: routers[to] ?? host ?? "hosts", kind });
  }
  return rows;
}

/** The larger load of both sides. */
function most(view: View | undefined, link: number): number {
  return Math.max(view?.before[link] || 0, view?.after?.[link] || 0);
}

/** Links with errors in turn with the most loaded, as `hopbyte links` lists them. */
function worst(rows: Row[], views: View[]): Row[] {
  const by = (view: View | undefined): Row[] =>
    [...rows].sort((a, b) => most(view, b.link) - most(view, a.link) || a.link - b.link);
  const errors = views.find((v) => v.name === "errors");
  const erring = errors ? by(errors).filter((row) => most(errors, row.link) > 0) : [];
  const order = new Set<Row>();
  const lists = [erring.values(), by(views[0]).values()];
  while (order.size < rows.length) {
    for (const list of lists) {
      for (const row of list) {
        if (order.has(row)) continue;
        order.add(row);
        break;
      }
    }
  }
  return [...order];
}

function compare(a: Value, b: Value): number {
  if (typeof a === "number" && typeof b === "number") return a < b ? -1 : Number(a > b);
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** A load, with its link's number in the picture, if any. */
function value(report: Report, view: View, side: Side, link: number): HTMLTableCellElement {
  const element = cell(shown(report, view, side, link), "n");
  const rank = view.numbered[side].indexOf(link);
  if (rank >= 0) {
    const number = document.createElement("span");
    number.className = "no";
    number.textContent = String(rank + 1);
    element.prepend(number, " ");
  }
  return element;
}

function cell(text: string, className = ""): HTMLTableCellElement {
  const element = document.createElement("td");
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function targetOf(event: Event): Target | null {
  if (!(event.target instanceof Element)) return null;
  const row = event.target.closest<HTMLElement>("tr[data-link]");
  return row ? { kind: "link", link: Number(row.dataset["link"]) } : null;
}
