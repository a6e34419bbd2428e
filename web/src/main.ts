// The script of a report: hover, sort, filter, turn. The page can be read without it.
import { load, loads } from "./data";
import { legend } from "./legend";
import { enliven } from "./picture";
import { Index } from "./places";
import { ranks } from "./ranks";
import { Selection } from "./selection";
import { space } from "./space";
import { LinkTable } from "./table";
import { Tooltip } from "./tooltip";

function start(): void {
  const report = load();
  if (!report) return;
  const selection = new Selection();
  const tip = new Tooltip();
  const index = report.places && new Index(report.places);
  for (const element of document.querySelectorAll<HTMLElement>(".view")) {
    legend(element);
    const view = report.views[Number(element.dataset["view"])];
    if (!view) continue;
    for (const figure of element.querySelectorAll<HTMLElement>("figure[data-side]")) {
      const values = loads(view, figure.dataset["side"] === "after" ? "after" : "before");
      if (index) enliven(figure, report, index, (l) => values[l] ?? 0, selection, tip);
    }
    if (element.dataset["view"] === "0") space(element, report, view, selection, tip);
  }
  const links = document.querySelector<HTMLTableElement>("#links-table");
  if (links) new LinkTable(links, report, selection);
  const placed = document.querySelector<HTMLElement>("#ranks-table");
  if (placed) ranks(placed, report, selection, tip);
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") selection.pin(null);
  });
}

start();
