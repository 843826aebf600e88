// @ts-check
/** A list of any length, of which only the rows in sight are in the page. */

import { h } from "./dom.js";

const HEIGHT = 22; // px; as --line-row in app.css
const AROUND = 12;

export class Rows {
  /** @type {any[]} */ #items = [];
  #drawn = /** @type {Map<number, HTMLElement>} */ (new Map());
  #active = -1;
  /** Whose rows are marked, by place. @type {(place: number) => string} */ #mark = () => "";
  #inner = /** @type {HTMLElement} */ (h("div", { class: "inner", role: "presentation" }));

  /** Told of the row under the cursor, by place. @type {(place: number) => void} */ onpoint = () => {};
  /** Told of a row that was chosen, by place. @type {(place: number) => void} */ onchoose = () => {};
  /** Asked to go to the list at the left (-1) or right (1). @type {(step: number) => void} */ onleave = () => {};

  /**
   * @param {string} name what the list is, for those who do not see it
   * @param {(item: any) => import("./dom.js").Child[]} cells
   */
  constructor(name, cells) {
    this.id = `rows-${Math.random().toString(36).slice(2)}`;
    this.cells = cells;
    this.element = /** @type {HTMLElement} */ (h("div", {
      class: "virtual", role: "listbox", tabindex: "0", "aria-label": name,
      scroll: () => this.#draw(),
      keydown: (/** @type {Event} */ event) => this.#key(/** @type {KeyboardEvent} */ (event)),
      focus: () => { if (this.#active < 0 && this.#items.length) this.#point(0); },
    }, this.#inner));
    new ResizeObserver(() => this.#draw()).observe(this.element);
  }

  /** @param {any[]} items */
  set items(items) {
    this.#items = items;
    this.#active = -1;
    this.#clear();
    this.#inner.style.height = `${items.length * HEIGHT}px`;
    this.#draw();
  }

  get items() {
    return this.#items;
  }

  get active() {
    return this.#active;
  }

  /** Mark rows: the class of each, by place. @param {(place: number) => string} mark */
  set mark(mark) {
    this.#mark = mark;
    for (const [place, row] of this.#drawn) this.#dress(place, row);
  }

  /** Bring a row into sight. @param {number} place */
  show(place) {
    const top = place * HEIGHT, pane = this.element;
    if (top < pane.scrollTop || top + HEIGHT > pane.scrollTop + pane.clientHeight) pane.scrollTop = top - pane.clientHeight / 3;
  }

  /** Make a row the active one, without telling anybody. @param {number} place */
  activate(place) {
    this.#active = place;
    this.#draw();
    for (const [each, row] of this.#drawn) this.#dress(each, row);
  }

  /** @param {number} place */
  #point(place) {
    this.activate(place);
    this.show(place);
    this.onpoint(place);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const page = Math.max(1, Math.floor(this.element.clientHeight / HEIGHT) - 1), last = this.#items.length - 1;
    const to = /** @type {Record<string, number>} */ ({ ArrowDown: this.#active + 1, ArrowUp: this.#active - 1, PageDown: this.#active + page, PageUp: this.#active - page, Home: 0, End: last });
    if (event.key in to && last >= 0) this.#point(Math.min(Math.max(to[event.key], 0), last));
    else if (event.key === "Enter" || event.key === " ") this.#active >= 0 && this.onchoose(this.#active);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.onleave(event.key === "ArrowLeft" ? -1 : 1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #clear() {
    this.#drawn.clear();
    this.#inner.replaceChildren();
  }

  #draw() {
    const pane = this.element;
    if (!pane.isConnected) return;
    const first = Math.max(Math.floor(pane.scrollTop / HEIGHT) - AROUND, 0);
    const last = Math.min(Math.ceil((pane.scrollTop + pane.clientHeight) / HEIGHT) + AROUND, this.#items.length);
    for (const [place, row] of this.#drawn) {
      if (place >= first && place < last) continue;
      row.remove();
      this.#drawn.delete(place);
    }
    for (let place = first; place < last; place++) {
      if (this.#drawn.has(place)) continue;
      const row = /** @type {HTMLElement} */ (h("div", {
        role: "option", id: `${this.id}-${place}`, "aria-posinset": place + 1, "aria-setsize": this.#items.length,
        pointerenter: () => this.onpoint(place),
        click: () => { this.activate(place); this.onchoose(place); },
      }, ...this.cells(this.#items[place])));
      row.style.top = `${place * HEIGHT}px`;
      this.#dress(place, row);
      this.#drawn.set(place, row);
      this.#inner.append(row);
    }
    if (this.#drawn.has(this.#active)) pane.setAttribute("aria-activedescendant", `${this.id}-${this.#active}`);
    else pane.removeAttribute("aria-activedescendant");
  }

  /** @param {number} place @param {HTMLElement} row */
  #dress(place, row) {
    row.className = `line ${this.#mark(place)}${place === this.#active ? " active" : ""}`;
    row.setAttribute("aria-selected", String(place === this.#active));
  }
}
