import type { Report } from "./data";
import { type Selection, type Target, key } from "./selection";

/** Keeps the pinned link, node or router in the page's address, as `#link=NAME`: to share, and for the button Back. */
export function address(report: Report, selection: Selection): void {
  const names = { link: report.links.name, node: report.nodes.name, router: report.routers };

  function fragment(target: Target | null): string {
    switch (target?.kind) {
      case "link":
        return `#link=${encodeURIComponent(names.link[target.link] ?? "")}`;
      case "node":
        return `#node=${encodeURIComponent(names.node[target.node] ?? "")}`;
      case "router":
        return `#router=${encodeURIComponent(names.router[target.router] ?? "")}`;
      default:
        return "";
    }
  }

  function read(): Target | null {
    const [, kind, name] = /^#(link|node|router)=(.+)$/.exec(location.hash) ?? [];
    if (kind === undefined || name === undefined) return null;
    const place = names[kind as keyof typeof names].indexOf(decoded(name));
    if (place < 0) return null;
    if (kind === "link") return { kind, link: place };
    return kind === "node" ? { kind, node: place } : { kind: "router", router: place };
  }

  function follow(): void {
    const target = read();
    if (key(target) !== key(selection.held)) selection.pin(target);
  }

  selection.onPin((target) => {
    if (fragment(target) === fragment(read())) return;
    history.pushState(null, "", fragment(target) || location.pathname + location.search);
  });
  addEventListener("popstate", follow);
  follow();
}

/** A part of an address; as it is if somebody typed a stray `%`. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
