import type { Places } from "./data";
import type { Target } from "./selection";

export type Four = [number, number, number, number];

/** Distances closer than this count as equal. */
const CLOSE = 0.3;
/** Side of the grid cells of the spatial index. */
const CELL = 24;

/** Four numbers of a packed list. */
export function four(list: Float32Array, at: number): Four {
  const i = 4 * at;
  return [list[i] ?? NaN, list[i + 1] ?? NaN, list[i + 2] ?? NaN, list[i + 3] ?? NaN];
}

/** Finds the element under a point of the picture. */
export class Index {
  private readonly cells = new Map<number, number[]>();
  private readonly columns: number;

  constructor(private readonly places: Places) {
    this.columns = Math.ceil(places.width / CELL) + 3;
    for (let link = 0; link < places.links.length / 4; link++) this.add(link);
  }

  private add(link: number): void {
    const [x1, y1, x2, y2] = four(this.places.links, link);
    if (Number.isNaN(x1)) return;
    const steps = Math.max(1, Math.ceil(Math.hypot(x2 - x1, y2 - y1) / (CELL / 2)));
    let last = NaN;
    for (let i = 0; i <= steps; i++) {
      const key = this.key(x1 + ((x2 - x1) * i) / steps, y1 + ((y2 - y1) * i) / steps);
      if (key === last) continue;
      last = key;
      const list = this.cells.get(key);
      if (list) list.push(link);
      else this.cells.set(key, [link]);
    }
  }

  private key(x: number, y: number): number {
    return (Math.floor(y / CELL) + 1) * this.columns + Math.floor(x / CELL) + 1;
  }

  /** The link or, if none is within reach, the node or router at a point. */
  at(x: number, y: number, load: (link: number) => number, reach: number): Target | null {
    const link = this.link(x, y, load, reach);
    return link === null ? this.box(x, y) : { kind: "link", link };
  }

  /** The nearest link within reach; of several at one place the most loaded. */
  private link(x: number, y: number, load: (link: number) => number, reach: number): number | null {
    let best = -1;
    let distance = reach;
    let value = -1;
    for (const dy of [-CELL, 0, CELL]) {
      for (const dx of [-CELL, 0, CELL]) {
        for (const link of this.cells.get(this.key(x + dx, y + dy)) ?? []) {
          const d = toSegment(x, y, four(this.places.links, link));
          const here = load(link) || 0;
          if (d < distance - CLOSE || (d <= distance + CLOSE && d <= reach && here > value)) {
            [best, distance, value] = [link, d, here];
          }
        }
      }
    }
    return best < 0 ? null : best;
  }

  /** A node with a box of its own, else the router at the point. */
  private box(x: number, y: number): Target | null {
    const { nodes, routers } = this.places;
    const router = find(routers, x, y);
    if (router >= 0) return { kind: "router", router };
    const node = find(nodes, x, y);
    return node >= 0 ? { kind: "node", node } : null;
  }
}

function find(boxes: Float32Array, x: number, y: number): number {
  for (let i = 0; i < boxes.length / 4; i++) {
    const [left, top, width, height] = four(boxes, i);
    if (x >= left && x <= left + width && y >= top && y <= top + height) return i;
  }
  return -1;
}

/** Distance of a point from a stroke. */
export function toSegment(x: number, y: number, [x1, y1, x2, y2]: Four): number {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const square = dx * dx + dy * dy;
  const t = square === 0 ? 0 : Math.min(1, Math.max(0, ((x - x1) * dx + (y - y1) * dy) / square));
  return Math.hypot(x - x1 - t * dx, y - y1 - t * dy);
}
