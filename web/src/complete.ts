/** Keys and words that fit where the cursor is in a scenario, from the schema of scenarios. */

import { make } from "./dom";

/** The parts of JSON Schema that the scenario's schema uses. */
export interface Schema {
  description?: string;
  $ref?: string;
  $defs?: Record<string, Schema>;
  properties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  const?: unknown;
}

export interface Suggestion {
  text: string;
  about: string;
}

export interface Completion {
  /** Where the word that is written so far begins. */
  from: number;
  options: Suggestion[];
}

/** A schema with its references and alternatives resolved. */
const forms = (schema: Schema, root: Schema): Schema[] => {
  if (schema.$ref) return forms(root.$defs?.[schema.$ref.split("/").at(-1) ?? ""] ?? {}, root);
  const inner = [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  return [schema, ...inner.flatMap((one) => forms(one, root))];
};

const below = (schemas: Schema[], key: string, root: Schema): Schema[] =>
  schemas.flatMap((schema) => {
    const found = schema.properties?.[key] ?? schema.items?.properties?.[key];
    return found ? forms(found, root) : [];
  });

/** Into the items of arrays. */
const each = (schemas: Schema[], root: Schema): Schema[] => schemas.flatMap((schema) => (schema.items ? forms(schema.items, root) : [schema]));

const keys = (schemas: Schema[]): Suggestion[] =>
  schemas.flatMap((schema) => Object.entries(schema.properties ?? {}).map(([text, { description }]) => ({ text, about: description ?? "" })));

const words = (schemas: Schema[]): Suggestion[] =>
  schemas
    .flatMap((schema) => [...(schema.enum ?? []), ...(schema.const === undefined ? [] : [schema.const])].map((word) => ({ text: word, about: schema.description ?? "" })))
    .filter((one): one is Suggestion => typeof one.text === "string");

/** The completions at a position of a scenario's text; `controllers` are the values of `cc`. */
export const complete = (text: string, at: number, root: Schema, controllers: string[]): Completion | null => {
  const before = text.slice(0, at);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  if (line.includes("#")) return null;
  const head = /^\s*\[\[?([\w.]*)$/.exec(line);
  const top = forms(root, root);
  const narrow = (written: string, options: Suggestion[]): Completion | null => {
    const fitting = options.filter((option, nth) => option.text.startsWith(written) && option.text !== written && options.findIndex(({ text: same }) => same === option.text) === nth);
    return fitting.length ? { from: at - written.length, options: fitting } : null;
  };
  if (head) {
    const path = (head[1] ?? "").split(".");
    const written = path.pop() ?? "";
    const inside = path.reduce((schemas, key) => each(below(schemas, key, root), root), top);
    return narrow(written, keys(inside).filter(({ text: key }) => each(below(inside, key, root), root).some(({ properties }) => properties)));
  }
  const section = [...before.matchAll(/^\s*\[\[?([\w.]+)\]\]?/gm)].at(-1)?.[1];
  let schemas = (section?.split(".") ?? []).reduce((inner, key) => each(below(inner, key, root), root), top);
  // Inline tables that are open on this line: `queue = { kind = `.
  let rest = line;
  let key = "";
  for (;;) {
    const opened = /^\s*(?:[^{]*,\s*)?([\w.]+)\s*=\s*\{/.exec(rest);
    if (!opened) break;
    key = opened[1] ?? "";
    schemas = each(below(schemas, key, root), root);
    rest = rest.slice(opened[0].length);
  }
  if (rest.includes("}")) return null;
  const part = rest.split(",").at(-1) ?? "";
  const value = /^\s*([\w.]+)\s*=\s*"([^"]*)$/.exec(part);
  if (value) {
    const [, of = "", written = ""] = value;
    const named = of === "cc" || (key === "cc" && of === "name");
    return narrow(written, named ? controllers.map((name) => ({ text: name, about: "" })) : words(below(schemas, of, root)));
  }
  const written = /^\s*(\w*)$/.exec(part)?.[1];
  if (written === undefined || (!written && !key)) return null;
  return narrow(written, keys(schemas));
};

/** How many suggestions are shown. */
const MOST = 12;

/** Gives an editor a list of completions at its cursor: Ctrl+Space and typing open it. Returns the function that opens it. */
export const attach = (editor: HTMLTextAreaElement, list: HTMLElement, find: () => Completion | null): (() => void) => {
  let open: Completion | null = null;
  let chosen = 0;

  const mark = (): void => {
    [...list.children].forEach((item, nth) => item.setAttribute("aria-selected", String(nth === chosen)));
    list.hidden = open === null;
    if (open) editor.setAttribute("aria-activedescendant", `completion-${chosen}`);
    else editor.removeAttribute("aria-activedescendant");
  };

  const dismiss = (): void => {
    open = null;
    mark();
  };

  /** Writes a suggestion in the place of the word so far. */
  const take = (nth: number): void => {
    const option = open?.options[nth];
    if (!open || !option) return;
    editor.setRangeText(option.text, open.from, editor.selectionStart, "end");
    editor.dispatchEvent(new Event("input"));
    dismiss();
  };

  const suggest = (): void => {
    open = editor.selectionStart === editor.selectionEnd ? find() : null;
    chosen = 0;
    list.replaceChildren();
    open?.options.slice(0, MOST).forEach(({ text, about }, nth) => {
      const item = make("li", undefined, list);
      item.id = `completion-${nth}`;
      item.setAttribute("role", "option");
      make("b", text, item);
      item.append(` ${about}`);
      item.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(nth);
      });
    });
    mark();
  };

  editor.addEventListener("blur", dismiss);
  editor.addEventListener("click", dismiss);
  editor.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey } = event;
    if (key === " " && ctrlKey) suggest();
    else if (!open) return;
    else if (key === "ArrowDown" || key === "ArrowUp") {
      const count = list.children.length;
      chosen = (chosen + (key === "ArrowDown" ? 1 : count - 1)) % count;
      mark();
    } else if ((key === "Enter" && !ctrlKey && !metaKey) || key === "Tab") take(chosen);
    else if (key === "Escape") dismiss();
    else return;
    event.preventDefault();
  });
  return suggest;
};
