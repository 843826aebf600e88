// Runs questions and prints one JSON line for each: what came of it, or what was thrown, and how long it took.

import { readFileSync } from "node:fs";

export const given = JSON.parse(readFileSync(0, "utf8"));

export const user = (content) => [{ role: "user", content }];

export async function report(name, run) {
  const began = performance.now();
  const outcome = await run().then(
    (value) => ({ value }),
    (error) => ({ thrown: describe(error) }),
  );
  const seconds = (performance.now() - began) / 1000;
  console.log(JSON.stringify({ name, seconds, ...outcome }));
}

function describe(error) {
  return {
    name: error?.constructor?.name ?? String(error),
    message: error?.message ?? null,
    status: error?.status ?? null,
    type: error?.type ?? null,
    code: error?.code ?? null,
    requestID: error?.requestID ?? null,
  };
}

export async function all(stream) {
  const received = [];
  for await (const event of stream) received.push(event);
  return received;
}
