import { clock } from "./chart";
import type { Selection } from "./selection";

/** A fault of a link; `crates/serve/src/page.rs` writes it. */
export interface Fault {
  link: number;
  from_seconds: number;
  /** null while it lasts. */
  to_seconds: number | null;
  words: string;
}

/** The faults of links, those that last first; select one to see its link. */
export class FaultList {
  private readonly section = document.createElement("section");
  private readonly list = document.createElement("ul");

  constructor(private readonly selection: Selection) {
    this.section.id = "faults";
    const title = document.createElement("h2");
    title.textContent = "Faults";
    this.section.append(title, this.list);
  }

  /** Without a fault there is no list. */
  show(faults: Fault[]): void {
    if (faults.length === 0) {
      this.section.remove();
      return;
    }
    if (!this.section.isConnected) document.querySelector("#links")?.before(this.section);
    const items = faults.map((fault) => {
      const item = document.createElement("li");
      const button = document.createElement("button");
      button.type = "button";
      const { from_seconds: from, to_seconds: to } = fault;
      const time = to === null ? `since ${clock(from)}` : `${clock(from)} to ${clock(to)}`;
      button.textContent = `${time}: ${fault.words}`;
      button.addEventListener("click", () => this.selection.pin({ kind: "link", link: fault.link }));
      item.className = to === null ? "lasts" : "ended";
      item.append(button);
      return item;
    });
    this.list.replaceChildren(...items);
  }
}
