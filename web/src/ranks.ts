import type { Report } from "./data";
import { describe } from "./describe";
import { lit, type Selection, type Target } from "./selection";
import type { Tooltip } from "./tooltip";

/** Connects the table of ranks to the pointer and the selection. */
export function ranks(table: HTMLElement, report: Report, selection: Selection, tip: Tooltip): void {
  const chips = new Map<number, HTMLElement[]>();
  for (const chip of table.querySelectorAll<HTMLElement>("[data-rank]")) {
    const rank = Number(chip.dataset["rank"]);
    chips.set(rank, [...(chips.get(rank) ?? []), chip]);
  }
  const rows = new Map<number, HTMLElement>();
  for (const row of table.querySelectorAll<HTMLElement>("tr[data-node]")) {
    row.tabIndex = 0;
    rows.set(Number(row.dataset["node"]), row);
  }
  table.addEventListener("pointerover", (event) => {
    const found = targetOf(event);
    selection.point(found);
    if (found?.kind === "rank") {
      tip.show(describe(report, found, "before"), event.clientX, event.clientY);
    } else {
      tip.hide();
    }
  });
  table.addEventListener("pointerleave", () => {
    selection.point(null);
    tip.hide();
  });
  table.addEventListener("click", (event) => selection.pin(targetOf(event)));
  table.addEventListener("focusin", (event) => selection.point(targetOf(event)));
  table.addEventListener("focusout", () => selection.point(null));
  table.addEventListener("keydown", (event) => {
    if (event.key === "Enter") selection.pin(targetOf(event));
  });

  let on: HTMLElement[] = [];
  selection.onChange((target) => {
    for (const element of on) element.classList.remove("lit");
    const both = [lit(report, target, "before"), lit(report, target, "after")];
    on = both.flatMap((l) => [
      ...l.ranks.flatMap((r) => chips.get(r) ?? []),
      ...l.nodes.flatMap((n) => rows.get(n) ?? []),
    ]);
    for (const element of on) element.classList.add("lit");
  });
}

function targetOf(event: Event): Target | null {
  if (!(event.target instanceof Element)) return null;
  const chip = event.target.closest<HTMLElement>("[data-rank]");
  if (chip) return { kind: "rank", rank: Number(chip.dataset["rank"]) };
  const row = event.target.closest<HTMLElement>("tr[data-node]");
  return row ? { kind: "node", node: Number(row.dataset["node"]) } : null;
}
