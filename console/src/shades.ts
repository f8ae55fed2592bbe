/** Colours of queues: apart also for the colour-blind, and each with a letter. */

export interface Shade {
  number: number; // of --shade-N in console.css
  letter: string;
}

const SHADES = 8;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** The first names get a colour of their own; beyond, colours come again and letters tell the names apart. */
export function shades(names: Iterable<string>): Map<string, Shade> {
  return new Map(
    [...names].map((name, index) => [
      name,
      { number: (index % SHADES) + 1, letter: LETTERS[index % LETTERS.length] ?? "?" },
    ]),
  );
}
