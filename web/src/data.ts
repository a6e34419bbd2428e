import { quantity } from "./text";

/** The document that a report embeds; `crates/view/src/report/data.rs` writes it. */
export interface Document {
  schema: "hopbyte-report-1";
  links: { name: string[]; kind: number[]; kinds: string[]; from: number[]; to: number[] };
  routers: string[];
  nodes: { name: string[]; router: number[] };
  places: { width: number; height: number; links: string; routers: string; nodes: string } | null;
  views: {
    name: string;
    unit: Unit;
    max: number;
    before: string;
    after: string | null;
    numbered_before: number[];
    numbered_after: number[];
  }[];
  signs: Signs;
  grid: { dims: [number, number, number]; coords: string; directions: string } | null;
  ranks: { before: number[]; after: number[] | null } | null;
  users: { of_link: [number, [number, number, number][]][]; of_node: [number, number[]][] }[];
}

export type Unit = "seconds" | "bytes" | "ratio" | "count";
export type Side = "before" | "after";

/** Links drawn with a symbol: errors, lanes out of service, down. */
export interface Signs {
  errors: number[];
  lanes: number[];
  cross: number[];
  /** Links of which there may be more errors than counted. */
  least: number[];
}

/** Loads of one quantity; not-a-number is unknown. */
export interface View {
  name: string;
  unit: Unit;
  max: number;
  before: Float32Array;
  after: Float32Array | null;
  /** Numbered links of the pictures, worst first. */
  numbered: { before: number[]; after: number[] };
}

/** Four numbers per place, `NaN` if not drawn. */
export interface Places {
  width: number;
  height: number;
  links: Float32Array;
  routers: Float32Array;
  nodes: Float32Array;
}

/** Node pairs that use a link, and links that a node uses, most bytes first. */
export interface Users {
  ofLink: Map<number, [number, number, number][]>;
  ofNode: Map<number, number[]>;
}

export interface Grid {
  dims: [number, number, number];
  coords: Uint16Array;
  /** Two per dimension, plus first; 255 for links that are not between routers. */
  directions: Uint8Array;
}

export interface Report {
  links: Document["links"];
  routers: string[];
  nodes: Document["nodes"];
  places: Places | null;
  views: View[];
  signs: Signs;
  grid: Grid | null;
  ranks: Document["ranks"];
  users: { before: Users | null; after: Users | null };
}

const NOWHERE = 65535;

function bytes(text: string): ArrayBuffer {
  const raw = atob(text);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out.buffer;
}

function tenths(text: string): Float32Array {
  return Float32Array.from(new Uint16Array(bytes(text)), (v) => (v === NOWHERE ? NaN : v / 10));
}

/** 32-bit floats in base 64. */
export function floats(text: string): Float32Array {
  return new Float32Array(bytes(text));
}

function users(list: Document["users"][number] | undefined): Users | null {
  return list ? { ofLink: new Map(list.of_link), ofNode: new Map(list.of_node) } : null;
}

/** Reads the embedded document, or null if the page has none. */
export function load(): Report | null {
  const element = document.getElementById("data");
  if (!element?.textContent) return null;
  const raw = JSON.parse(element.textContent) as Document;
  return {
    links: raw.links,
    routers: raw.routers,
    nodes: raw.nodes,
    places: raw.places && {
      width: raw.places.width,
      height: raw.places.height,
      links: tenths(raw.places.links),
      routers: tenths(raw.places.routers),
      nodes: tenths(raw.places.nodes),
    },
    views: raw.views.map((v) => ({
      name: v.name,
      unit: v.unit,
      max: v.max,
      before: floats(v.before),
      after: v.after === null ? null : floats(v.after),
      numbered: { before: v.numbered_before, after: v.numbered_after },
    })),
    signs: raw.signs,
    grid: raw.grid && {
      dims: raw.grid.dims,
      coords: new Uint16Array(bytes(raw.grid.coords)),
      directions: new Uint8Array(bytes(raw.grid.directions)),
    },
    ranks: raw.ranks,
    users: { before: users(raw.users[0]), after: users(raw.users[1]) },
  };
}

/** Loads of a side; views without a second side have only one. */
export function loads(view: View, side: Side): Float32Array {
  return side === "after" && view.after ? view.after : view.before;
}

/** A value of a link with its unit, or its lower bound. */
export function shown(report: Report, view: View, side: Side, link: number): string {
  const least = view.name === "errors" && report.signs.least.includes(link);
  return (least ? "≥ " : "") + quantity(loads(view, side)[link] ?? NaN, view.unit);
}

/** Share below which a link is idle. */
const IDLE = 0.01;

/** Class of a load, 0 for idle, 1 to 5; -1 for unknown. The same rule as in the drawings. */
export function classOf(value: number, max: number, unit: Unit): number {
  if (Number.isNaN(value)) return -1;
  if (value <= (unit === "ratio" ? IDLE : 0) || max <= 0) return 0;
  return Math.min(5, Math.max(1, Math.ceil((value / max) * 5 - 1e-6)));
}
