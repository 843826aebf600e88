// @ts-check
/** All calls that the gateway keeps, as they are now: told by server-sent events, and never asked for twice. */

import { traits } from "./filter.js";
import { Glimpses, Search } from "./texts.js";

const AGAIN = 2000; // ms until the next try, where the browser has given up

export class Live extends EventTarget {
  /** @type {Map<number, any>} */
  calls = new Map();
  /** What the gateway says of its memory. */
  room = { bytes: 0, most_bytes: 0, most_calls: 0, process: 0, worker: 1, workers: /** @type {string[]} */ ([]) };
  /** Which texts the gateway keeps: `none`, `masked` or `full`. */
  content = "none";
  glimpses = new Glimpses();
  search = new Search();
  /** @type {"connecting" | "live" | "paused" | "away"} */
  state = "connecting";
  /** @type {EventSource | null} */
  #source = null;

  constructor() {
    super();
    this.glimpses.onchange = this.search.onchange = () => this.dispatchEvent(new Event("change"));
    this.search.calls = () => this.calls.values();
  }

  start() {
    this.#source = new EventSource("api/events");
    this.#source.onopen = () => this.#become("live");
    this.#source.onmessage = (message) => this.#take(JSON.parse(message.data));
    this.#source.onerror = () => {
      this.#become("away");
      if (this.#source?.readyState === EventSource.CLOSED) setTimeout(() => this.#source && this.start(), AGAIN);
    };
  }

  /** Stop listening; what is known stays. */
  stop() {
    this.#source?.close();
    this.#source = null;
    this.#become("paused");
  }

  toggle() {
    if (this.state === "paused") this.start();
    else this.stop();
  }

  /** @param {Live["state"]} state */
  #become(state) {
    this.state = state;
    this.dispatchEvent(new Event("change"));
  }

  /** @param {any} told */
  #take(told) {
    if (told.fresh) this.calls.clear();
    this.content = told.content;
    this.glimpses.forget(told.gone);
    for (const number of told.gone) this.calls.delete(number);
    const now = performance.now();
    for (const call of told.calls) {
      const began = now - call.seconds * 1000;
      this.calls.set(call.number, { ...call, currency: told.currency, has: traits(call), began: call.state === "ended" ? 0 : began });
    }
    this.room = told;
    this.#become("live");
    this.search.go();
  }

  /** How many have a trait. @param {string} trait */
  having(trait) {
    let found = 0;
    for (const call of this.calls.values()) if (call.has.includes(trait)) found++;
    return found;
  }

  /** Newest first. @param {(call: any) => boolean} fits */
  matching(fits) {
    const found = [];
    for (const call of this.calls.values()) if (fits(call)) found.push(call);
    return found.sort((one, other) => other.number - one.number);
  }
}
