import type { Report, Side } from "./data";
import { describe } from "./describe";
import { four, type Four, type Index } from "./places";
import { lit, type Selection, type Target } from "./selection";
import type { Tooltip } from "./tooltip";
import type { Zoom } from "./zoom";

const SVG = "http://www.w3.org/2000/svg";

/** Limit of links up to which a selection dims the others: painting more takes too long. */
const MOST_DIMMED = 6000;

/** Maximum distance of the pointer from a stroke, in pixels of the whole picture. */
const REACH = 7;

/** Connects one drawing to the pointer and the selection. */
export function enliven(
  figure: HTMLElement,
  report: Report,
  index: Index,
  load: (link: number) => number,
  selection: Selection,
  tip: Tooltip,
  zoom: Zoom,
): void {
  const svg = figure.querySelector<SVGSVGElement>("svg.hb");
  const { places } = report;
  if (!svg || !places) return;
  const side: Side = figure.dataset["side"] === "after" ? "after" : "before";
  const layer = svg.cloneNode(false) as SVGSVGElement;
  layer.setAttribute("class", "hb layer");
  layer.setAttribute("aria-hidden", "true");
  const strokes = overlay(layer, "over");
  const boxes = overlay(layer, "over boxes");
  svg.after(layer);
  const dims = places.links.length / 4 <= MOST_DIMMED;

  const target = (event: MouseEvent): Target | null => {
    const box = svg.getBoundingClientRect();
    const scale = places.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    return index.at(x, y, load, REACH / zoom.factor);
  };
  svg.addEventListener("pointermove", (event) => {
    const found = target(event);
    selection.point(found);
    if (found) tip.show(describe(report, found, side), event.clientX, event.clientY);
    else tip.hide();
    svg.style.cursor = found ? "pointer" : "";
  });
  svg.addEventListener("pointerleave", () => {
    selection.point(null);
    tip.hide();
  });
  svg.addEventListener("click", (event) => selection.pin(target(event)));

  selection.onChange((chosen) => {
    const light = lit(report, chosen, side);
    strokes.setAttribute("d", light.links.map((l) => stroke(four(places.links, l))).join(""));
    const frames = [
      ...light.nodes.map((n) => frame(four(places.nodes, n))),
      ...light.routers.map((r) => frame(four(places.routers, r))),
    ];
    boxes.setAttribute("d", frames.join(""));
    svg.classList.toggle("dim", dims && light.links.length + frames.length > 0);
  });
}

/** A path on the layer above the drawing, which is painted separately. */
function overlay(layer: SVGSVGElement, name: string): SVGPathElement {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("class", name);
  layer.append(path);
  return path;
}

function stroke([x1, y1, x2, y2]: Four): string {
  return Number.isNaN(x1) ? "" : `M${x1} ${y1}L${x2} ${y2}`;
}

function frame([x, y, w, h]: Four): string {
  return Number.isNaN(x) ? "" : `M${x - 1.5} ${y - 1.5}h${w + 3}v${h + 3}h${-w - 3}z`;
}
