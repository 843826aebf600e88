// @ts-check
/**
 * What was asked in each call, and a search through the texts of all: both are asked for in steps that are short at the
 * gateway, the newest calls first, and only once for each call.
 */

import { ask } from "./api.js";

const MOST = 200; // calls in one question
const SOON = 100; // ms
const AGAIN = 2000; // ms, where the gateway did not answer

/** The beginning of what was asked, and the tools that were called, of calls that are in sight. */
export class Glimpses {
  /** @type {Map<number, {asked: string, tools: string[], ended: boolean}>} */ #known = new Map();
  /** @type {Map<number, boolean>} */ #waiting = new Map();
  #busy = false;

  /** Told that some are known. @type {() => void} */ onchange = () => {};

  /** What is known; more is asked for. @param {any} call */
  of(call) {
    const known = this.#known.get(call.number), ended = call.state === "ended";
    if (!known || known.ended !== ended) {
      this.#waiting.set(call.number, ended);
      if (!this.#busy) this.#ask();
    }
    return known;
  }

  /** @param {Iterable<number>} numbers */
  forget(numbers) {
    for (const number of numbers) this.#known.delete(number);
  }

  async #ask() {
    this.#busy = true;
    await new Promise((next) => setTimeout(next, SOON));
    const some = new Map([...this.#waiting].slice(0, MOST));
    this.#waiting.clear();
    const told = await ask(`glimpses?calls=${[...some.keys()].join(",")}`).catch(() => new Promise((next) => setTimeout(() => next({ calls: {} }), AGAIN)));
    for (const [number, each] of Object.entries(told.calls)) this.#known.set(Number(number), { ...each, ended: some.get(Number(number)) ?? false });
    this.#busy = false;
    if (Object.keys(told.calls).length) this.onchange();
  }
}

/** Which calls have a text in their requests or answers. */
export class Search {
  /** Words to numbers of calls, and whether each has it. @type {Map<string, Map<number, boolean>>} */ #looked = new Map();
  #busy = false;
  /** Why nothing can be found; empty where it can. */ problem = "";
  left = 0;

  /** Told of each step. @type {() => void} */ onchange = () => {};
  /** The calls that there are. @type {() => Iterable<any>} */ calls = () => [];

  /** @param {string[]} wanted */
  set words(wanted) {
    for (const word of this.#looked.keys()) if (!wanted.includes(word)) this.#looked.delete(word);
    for (const word of wanted) if (!this.#looked.has(word)) this.#looked.set(word, new Map());
    this.go();
  }

  /** @param {string} word @param {any} call */
  has(word, call) {
    return this.#looked.get(word)?.get(call.number) ?? false;
  }

  /** Look at what was not looked at yet. */
  async go() {
    if (this.#busy) return;
    this.#busy = true;
    for (let next = this.#next(); next; next = this.#next()) {
      const [word, numbers] = next, began = performance.now();
      try {
        const { found, looked } = await ask(`search?${new URLSearchParams({ text: word, calls: numbers.join(",") })}`);
        const known = this.#looked.get(word), has = new Set(found), seen = new Set(looked);
        // Those that are gone by now are not looked at again.
        for (const number of looked.length ? numbers.filter((each) => seen.has(each) || each > Math.max(...looked)) : numbers) known?.set(number, has.has(number));
        this.problem = "";
      } catch (error) {
        this.problem = /** @type {Error} */ (error).message;
        this.onchange();
        break;
      }
      this.#next(); // counts what is left
      this.onchange();
      await new Promise((done) => setTimeout(done, performance.now() - began)); // others may look, too
    }
    this.#busy = false;
  }

  /** A word, and the newest calls that were not looked at for it. @returns {[string, number[]] | null} */
  #next() {
    this.left = 0;
    let next = null;
    for (const [word, known] of this.#looked) {
      const numbers = [];
      for (const call of this.calls()) if (call.recorded && call.state === "ended" && !known.has(call.number)) numbers.push(call.number);
      this.left += numbers.length;
      if (numbers.length) next ??= /** @type {[string, number[]]} */ ([word, numbers.sort((one, other) => other - one).slice(0, MOST)]);
    }
    return next;
  }
}
