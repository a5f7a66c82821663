/** The page's elements. */

/** The element of an id, which the page has; `kind` is the class that it must be of. */
export const byId = <Kind extends HTMLElement>(id: string, kind: new () => Kind): Kind => {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} ${id}`);
  return found;
};

export const make = <Tag extends keyof HTMLElementTagNameMap>(tag: Tag, text?: string, inside?: Element): HTMLElementTagNameMap[Tag] => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  inside?.append(element);
  return element;
};

/** Calls `act` once there was no further call for this many milliseconds. */
export const settled = (act: () => void, milliseconds: number): (() => void) => {
  let pending: ReturnType<typeof setTimeout> | undefined;
  return () => {
    clearTimeout(pending);
    pending = setTimeout(act, milliseconds);
  };
};

/** Items by their key, in order. */
export const grouped = <Item>(items: Item[], key: (item: Item) => string): Map<string, Item[]> => {
  const found = new Map<string, Item[]>();
  for (const item of items) {
    const group = found.get(key(item));
    if (group) group.push(item);
    else found.set(key(item), [item]);
  }
  return found;
};
