import { shown, type Report, type Side } from "./data";
import { lit, type Target } from "./selection";
import { quantity } from "./text";

/** Limit of node pairs named for a link. */
const PAIRS = 4;
/** Limit of ranks named for a node. */
const RANKS = 12;

/** Text of a target's tooltip. */
export function describe(report: Report, target: Target, side: Side): string[] {
  switch (target.kind) {
    case "link":
      return link(report, target.link, side);
    case "router":
      return [report.routers[target.router] ?? "", ...ranks(report, target, side)];
    case "node": {
      const router = report.routers[report.nodes.router[target.node] ?? -1] ?? "?";
      return [nodeName(report, target.node), `on ${router}`, ...ranks(report, target, side)];
    }
    case "job":
      return [`Job ${target.job}`, `${target.nodes.length} nodes`];
    case "rank": {
      const places = (["before", "after"] as const).flatMap((s) => {
        const node = report.ranks?.[s]?.[target.rank];
        return node === undefined ? [] : [`${s}: ${nodeName(report, node)}`];
      });
      return [`Rank ${target.rank}`, ...places];
    }
  }
}

function link(report: Report, id: number, side: Side): string[] {
  const { links, routers, views } = report;
  const to = routers[links.to[id] ?? -1];
  const kind = links.kinds[links.kind[id] ?? -1] ?? "";
  const lines = [links.name[id] || `link ${id}`, to === undefined ? kind : `${kind}, to ${to}`];
  for (const view of views) {
    const value = shown(report, view, "before", id);
    const after = view.after && shown(report, view, "after", id);
    lines.push(`${view.name}: ${after === null ? value : `${value} before, ${after} after`}`);
  }
  if (report.signs.cross.includes(id)) lines.push("down: no lane in service");
  if (report.signs.lanes.includes(id)) lines.push("lanes out of service");
  const pairs = report.users[side]?.ofLink.get(id) ?? [];
  for (const [from, into, bytes] of pairs.slice(0, PAIRS)) {
    const ends = `${nodeName(report, from)} → ${nodeName(report, into)}`;
    lines.push(`${ends}: ${quantity(bytes, "bytes")}`);
  }
  if (pairs.length > PAIRS) lines.push("and others");
  return lines;
}

function nodeName(report: Report, node: number): string {
  return report.nodes.name[node] ?? "?";
}

function ranks(report: Report, target: Target, side: Side): string[] {
  if (!report.ranks?.[side]) return [];
  const on = lit(report, target, side).ranks;
  if (on.length === 0) return ["no rank of the job"];
  const more = on.length > RANKS ? `, … (${on.length})` : "";
  return [`ranks ${on.slice(0, RANKS).join(", ")}${more}`];
}
