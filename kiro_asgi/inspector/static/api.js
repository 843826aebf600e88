// @ts-check
/** The gateway, as the page asks it.  All addresses are relative, so that any prefix works. */

export class Refused extends Error {
  /** @param {number} status @param {string} words */
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

/** @param {string} path @param {RequestInit} [options] */
export async function ask(path, options = {}) {
  const answer = await fetch(`api/${path}`, { cache: "no-store", ...options });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, told.error ?? `the gateway answers ${answer.status}`);
  return told;
}

export const session = () => ask("session");

/** @param {string} secret */
export const signIn = (secret) =>
  ask("session", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ secret }) });

export const signOut = () => ask("session", { method: "DELETE" });
