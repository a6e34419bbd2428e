import type { Report, Side, Users } from "./data";

/** Target of the pointer. */
export type Target =
  | { kind: "link"; link: number }
  | { kind: "node"; node: number }
  | { kind: "router"; router: number }
  | { kind: "rank"; rank: number }
  | { kind: "job"; job: string; links: number[]; nodes: number[] };

/** All highlighted elements on one side of the comparison. */
export interface Lit {
  links: number[];
  nodes: number[];
  routers: number[];
  ranks: number[];
}

type Listener = (target: Target | null) => void;

/** Holds the hovered and the pinned target, and notifies all views. */
export class Selection {
  private readonly listeners: Listener[] = [];
  private readonly pinListeners: Listener[] = [];
  private pinned: Target | null = null;

  get held(): Target | null {
    return this.pinned;
  }

  onChange(listener: Listener): void {
    this.listeners.push(listener);
  }

  /** Calls the listener when a target is pinned, and with `null` when it is unpinned. */
  onPin(listener: Listener): void {
    this.pinListeners.push(listener);
  }

  /** Sets the hovered target, unless one is pinned. */
  point(target: Target | null): void {
    if (this.pinned === null) this.tell(target);
  }

  /** Pins a target, or unpins it if it is pinned already. */
  pin(target: Target | null): void {
    const same = target !== null && key(target) === key(this.pinned);
    this.pinned = same ? null : target;
    this.tell(this.pinned);
    for (const listener of this.pinListeners) listener(this.pinned);
  }

  private tell(target: Target | null): void {
    for (const listener of this.listeners) listener(target);
  }
}

/** Equal for equal targets; the links of a job change with the readings. */
export function key(target: Target | null): string {
  return target?.kind === "job" ? `job ${target.job}` : JSON.stringify(target);
}

const NONE: Lit = { links: [], nodes: [], routers: [], ranks: [] };

/** Follows a target through ranks, nodes and links on one side. */
export function lit(report: Report, target: Target | null, side: Side): Lit {
  if (target === null) return NONE;
  const users = report.users[side];
  const placed = report.ranks?.[side] ?? null;
  switch (target.kind) {
    case "link": {
      const pairs = users?.ofLink.get(target.link) ?? [];
      const nodes = [...new Set(pairs.flatMap(([from, to]) => [from, to]))];
      return { links: [target.link], nodes, routers: [], ranks: ranksOn(placed, nodes) };
    }
    case "node":
      return { ...onNodes([target.node], users, placed), nodes: [target.node] };
    case "router": {
      const nodes = report.nodes.router.flatMap((r, n) => (r === target.router ? [n] : []));
      return { ...onNodes(nodes, users, placed), routers: [target.router] };
    }
    case "job":
      return { ...NONE, links: target.links, nodes: target.nodes };
    case "rank": {
      const node = placed?.[target.rank];
      if (node === undefined) return NONE;
      return { ...onNodes([node], users, placed), nodes: [node], ranks: [target.rank] };
    }
  }
}

function onNodes(nodes: number[], users: Users | null, placed: number[] | null): Lit {
  return {
    ...NONE,
    links: nodes.flatMap((n) => users?.ofNode.get(n) ?? []),
    ranks: ranksOn(placed, nodes),
  };
}

function ranksOn(placed: number[] | null, nodes: number[]): number[] {
  if (placed === null || nodes.length === 0) return [];
  const wanted = new Set(nodes);
  return placed.flatMap((node, rank) => (wanted.has(node) ? [rank] : []));
}
