/** The colour and the letter of a queue, the same on all pages. The colours are apart also for the colour-blind. */

export interface Shade {
  number: number; // of --shade-N in console.css
  letter: string;
}

/** By name; null is all that is no queue. */
export type Shades = Map<string | null, Shade>;

const SHADES = 7;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const REST: Shade = { number: SHADES + 1, letter: "+" };

/** `leaves`: all queues. Without them, each of `names` gets a shade among these names. */
export function shades(names: (string | null)[], leaves: string[] | null): Shades {
  const known = leaves ?? [...new Set(names)].filter((name) => name !== null).sort();
  const numbers = spread(known, SHADES, hash);
  const letters = spread(known, LETTERS.length, initial);
  const shade = (name: string): Shade => ({
    number: (numbers.get(name) ?? hash(name) % SHADES) + 1,
    letter: LETTERS[letters.get(name) ?? initial(name) % LETTERS.length] ?? "?",
  });
  return new Map(names.map((name) => [name, name === null ? REST : shade(name)]));
}

/** A place for each name: the one that it prefers, or the next that is free. When all are taken, they are free again.
 * So a queue that comes or goes changes the places of few others. */
function spread(names: string[], size: number, prefers: (name: string) => number): Map<string, number> {
  const taken = new Set<number>();
  const places = new Map<string, number>();
  for (const name of names) {
    if (taken.size === size) taken.clear();
    let place = prefers(name) % size;
    while (taken.has(place)) place = (place + 1) % size;
    taken.add(place);
    places.set(name, place);
  }
  return places;
}

function hash(name: string): number {
  let sum = 0;
  for (const character of name) sum = (31 * sum + (character.codePointAt(0) ?? 0)) % 1_000_003;
  return sum;
}

function initial(name: string): number {
  const place = LETTERS.indexOf((name.split("/").at(-1) ?? "").charAt(0).toUpperCase());
  return place < 0 ? hash(name) : place;
}

/** The square with the colour and the letter. */
export function Mark({ shade }: { shade: Shade | undefined }) {
  return <span className={`slot shade-${shade?.number}`} data-sign={shade?.letter} aria-hidden="true" />;
}
