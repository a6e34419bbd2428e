// The script of a report: hover, sort, filter, turn. The page is readable without it.
import { address } from "./address";
import { load, loads } from "./data";
import { legend } from "./legend";
import { live } from "./live";
import { enliven } from "./picture";
import { Index } from "./places";
import { ranks } from "./ranks";
import { Selection } from "./selection";
import { space } from "./space";
import { LinkTable } from "./table";
import { Tooltip } from "./tooltip";
import { Zoom } from "./zoom";

function start(): void {
  const zoom = new Zoom();
  for (const figure of document.querySelectorAll<HTMLElement>(".pictures figure")) zoom.add(figure);
  const report = load();
  if (!report) return;
  const selection = new Selection();
  const tip = new Tooltip();
  const index = report.places && new Index(report.places);
  let turn = (): void => {};
  for (const element of document.querySelectorAll<HTMLElement>(".view")) {
    legend(element);
    const view = report.views[Number(element.dataset["view"])];
    if (!view) continue;
    for (const figure of element.querySelectorAll<HTMLElement>("figure[data-side]")) {
      const side = figure.dataset["side"] === "after" ? "after" : "before";
      if (index) enliven(figure, report, index, (l) => loads(view, side)[l] ?? 0, selection, tip, zoom);
    }
    if (element.dataset["view"] === "0") turn = space(element, report, view, selection, tip);
  }
  const links = document.querySelector<HTMLTableElement>("#links-table");
  const table = links && new LinkTable(links, report, selection);
  const placed = document.querySelector<HTMLElement>("#ranks-table");
  if (placed) ranks(placed, report, selection, tip);
  live(report, selection, (element, number) => {
    legend(element);
    if (number !== 0) return;
    turn();
    table?.refresh();
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") selection.pin(null);
  });
  address(report, selection);
}

start();
