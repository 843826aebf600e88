// @ts-check
/** All calls that the gateway keeps, as they are now: told by server-sent events, and never asked for twice. */

const AGAIN = 2000; // ms until the next try, where the browser has given up

export class Live extends EventTarget {
  /** @type {Map<number, any>} */
  calls = new Map();
  /** What the gateway says of its memory. */
  room = { bytes: 0, most_bytes: 0, most_calls: 0 };
  /** @type {"connecting" | "live" | "paused" | "away"} */
  state = "connecting";
  /** @type {EventSource | null} */
  #source = null;

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
    const kept = new Set(told.kept), now = performance.now();
    for (const number of this.calls.keys()) {
      if (number >= told.oldest) break;
      if (!kept.has(number)) this.calls.delete(number);
    }
    for (const call of told.calls) {
      const began = now - call.seconds * 1000;
      this.calls.set(call.number, { ...call, began: call.state === "ended" ? 0 : began });
    }
    this.room = told;
    this.#become("live");
  }

  /** Newest first. @param {(call: any) => boolean} fits */
  matching(fits) {
    const found = [];
    for (const call of this.calls.values()) if (fits(call)) found.push(call);
    return found.sort((one, other) => other.number - one.number);
  }
}
