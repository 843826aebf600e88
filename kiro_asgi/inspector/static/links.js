// @ts-check
/**
 * Which steps belong together: bytes of a service, what each stage made of them, and what the client was sent.
 *
 * A row is [kind, seconds, cause, stage, attempt, offset, size, words, kept by].
 */

export const KIND = 0, TIME = 1, CAUSE = 2, STAGE = 3, ATTEMPT = 4, OFFSET = 5, SIZE = 6, WORDS = 7, KEPT = 8;

/** @param {Map<number, number[]>} map @param {number} key @param {number} value */
function add(map, key, value) {
  const known = map.get(key);
  if (known) known.push(value);
  else map.set(key, [value]);
}

export class Links {
  /** @type {number[][]} */ #children;
  /** Steps that a stage kept until it gave this one. @type {Map<number, number[]>} */ #held = new Map();
  /** Steps that a stage gave once it had this one and more. @type {Map<number, number[]>} */ #later = new Map();
  /** Frames by the reads that hold their bytes, and the other way round. @type {Map<number, number[]>} */ #bytes = new Map();
  /** Events by the send that has them, and the other way round. @type {Map<number, number[]>} */ #sends = new Map();

  /** @param {{steps: any[][], stages: string[], events: number[]}} told */
  constructor(told) {
    this.rows = told.steps;
    this.#children = told.steps.map(() => []);
    const events = new Set(told.events), kept = /** @type {Record<string, number[]>} */ ({}), given = /** @type {Record<string, {cause: number, held: number[]}>} */ ({});
    let waiting = /** @type {number[]} */ ([]);
    for (const [at, row] of told.steps.entries()) {
      if (row[KIND] === "s") {
        this.#sends.set(at, waiting);
        for (const event of waiting) this.#sends.set(event, [at]);
        waiting = [];
        if (!told.events.length && row[CAUSE] >= 0) this.#children[row[CAUSE]].push(at);
        continue;
      }
      if (row[CAUSE] >= 0) this.#children[row[CAUSE]].push(at);
      if (events.has(at)) waiting.push(at);
      const stage = told.stages[row[STAGE]];
      if (stage) {
        const before = given[stage];
        const held = before && before.cause === row[CAUSE] ? before.held : kept[stage] ?? [];
        given[stage] = { cause: row[CAUSE], held };
        if (held !== before?.held) kept[stage] = [];
        this.#held.set(at, held);
        for (const each of held) add(this.#later, each, at);
      }
      if (row[KEPT]) (kept[row[KEPT]] ??= []).push(at);
    }
    this.#tieBytes();
  }

  /** Tie each frame to the reads that hold its bytes; both come in the order of their bytes. */
  #tieBytes() {
    const reads = this.rows.map((row, at) => ({ row, at })).filter(({ row }) => row[KIND] === "r");
    let first = 0;
    for (const [at, row] of this.rows.entries()) {
      if (row[KIND] !== "i" || !row[SIZE]) continue;
      const before = (/** @type {any[]} */ read) => read[ATTEMPT] < row[ATTEMPT] || (read[ATTEMPT] === row[ATTEMPT] && read[OFFSET] + read[SIZE] <= row[OFFSET]);
      while (first < reads.length && before(reads[first].row)) first++;
      for (let next = first; next < reads.length; next++) {
        const read = reads[next].row;
        if (read[ATTEMPT] !== row[ATTEMPT] || read[OFFSET] >= row[OFFSET] + row[SIZE]) break;
        add(this.#bytes, at, reads[next].at);
        add(this.#bytes, reads[next].at, at);
      }
    }
  }

  /** The frames that have bytes in a read. @param {number} read */
  framesIn(read) {
    return this.#bytes.get(read) ?? [];
  }

  /** All that led to a step, and all that came of it, with the step itself. @param {number} step */
  of(step) {
    const found = new Set([step]);
    const row = this.rows[step];
    const from = row[KIND] === "s" ? this.#sends.get(step) ?? [] : [step];
    this.#walk(from, found, (at) => [this.rows[at][CAUSE], ...(this.#held.get(at) ?? []), ...(this.rows[at][KIND] === "i" ? this.#bytes.get(at) ?? [] : [])]);
    if (row[KIND] === "s") {
      if (!from.length && row[CAUSE] >= 0 && this.#children[row[CAUSE]].includes(step)) found.add(row[CAUSE]);
      return found;
    }
    const down = new Set([step]);
    this.#walk([step], down, (at) => [...this.#children[at], ...(this.#later.get(at) ?? []), ...(this.rows[at][KIND] === "r" ? this.#bytes.get(at) ?? [] : [])]);
    for (const at of down) {
      found.add(at);
      for (const send of this.rows[at][KIND] === "i" ? this.#sends.get(at) ?? [] : []) found.add(send);
    }
    return found;
  }

  /** @param {number[]} from @param {Set<number>} found @param {(at: number) => number[]} next */
  #walk(from, found, next) {
    const open = [...from];
    for (const at of open) found.add(at);
    while (open.length) {
      for (const at of next(/** @type {number} */ (open.pop()))) {
        if (at < 0 || found.has(at)) continue;
        found.add(at);
        open.push(at);
      }
    }
  }
}
