// Says on any page that the server can't be reached: until it can, what the page shows may be old.
import { watchConnection } from "./connection.js";
import { component, make } from "./dom.js";

const LOST = "Connection lost. What this page shows may be out of date, and nothing pressed now is stored. Trying again.";

class Line {
  constructor(root) {
    this.said = make("p", { class: "line", role: "alert" });
    root.append(this.said);
    this.unwatch = watchConnection((lost) => (this.said.textContent = lost ? LOST : ""));
  }

  update() {}

  close() {
    this.unwatch();
    this.said.remove();
  }
}

export default component(Line);
