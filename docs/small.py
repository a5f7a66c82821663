"""Makes the pictures of the documentation small: they look the same, and a clone loads less.

`python docs/small.py FILE...` rewrites pictures in place; the scripts that draw pictures call it.
A small picture stays as it is. PNG gets a palette; SVG loses digits, spaces and unused names.
"""

from __future__ import annotations

import re
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image

#: Colours in a palette.
COLOURS = 32
USED = re.compile(r'(?:href="|url\()#([^")]+)')
STYLE = re.compile(r' style="([^"]*)"')


def svg(text: str) -> str:
    """Return an SVG of matplotlib with tenths of a point, which is less than a line's width."""
    if "<style>" in text:
        return text
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<style type="text/css">(.*?)</style>', r"<style>\1</style>", text)
    # Names: only those that are used, and each a number.
    used = {name: f"_{nth}" for nth, name in enumerate(dict.fromkeys(USED.findall(text)))}
    text = USED.sub(lambda m: m[0].replace(m[1], used[m[1]]), text)
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{used[m[1]]}"' if m[1] in used else "", text)
    # Styles: each is a class.
    styles = {style: f"s{nth}" for nth, style in enumerate(dict.fromkeys(STYLE.findall(text)))}
    text = STYLE.sub(lambda m: f' class="{styles[m[1]]}"', text)
    rules = "".join(f".{name}{{{' '.join(style.split())}}}" for style, name in styles.items())
    text = text.replace("</style>", f"{rules}</style>")
    text = re.sub(r' d="([^"]*)"', lambda m: f' d="{_path(m[1])}"', text)
    text = re.sub(r' (x|y)="([^"]*)"', lambda m: f' {m[1]}="{_number(float(m[2]))}"', text)
    text = re.sub(
        r"translate\((\S+) (\S+)\)",
        lambda m: f"translate({_number(float(m[1]))} {_number(float(m[2]))})",
        text,
    )
    text = re.sub(r"\s+<", "<", text)
    while (bare := re.sub(r"<g>((?:<(?!g\b|/g>)[^>]*>)*)</g>", r"\1", text)) != text:
        text = bare
    return text.replace("><", ">\n<").replace("/>\n<use", "/><use") + "\n"


def _path(path: str) -> str:
    """Return a path with tenths; a line's points are relative to the one before."""
    out, last, at = "", "", (0, 0)
    for letter, numbers in re.findall(r"([MLQCZz])((?:\s+-?[\d.]+)*)", path):
        tenths = [round(float(number) * 10) for number in numbers.split()]
        shown = letter
        if letter == "L":
            end = (tenths[0], tenths[1])
            tenths, at = [end[0] - at[0], end[1] - at[1]], end
            shown = " " if last == "L" else "l"
        elif tenths:
            at = (tenths[-2], tenths[-1])
        out += shown + " ".join(_number(tenth / 10) for tenth in tenths)
        last = letter
    return out.replace(" -", "-")


def _number(number: float) -> str:
    """Return a number with a tenth, if it has one."""
    text = f"{number:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def png(octets: bytes, method: Image.Quantize = Image.Quantize.MEDIANCUT) -> bytes:
    """Return a PNG with a palette."""
    with Image.open(BytesIO(octets)) as image:
        if image.mode == "P" and len(image.getcolors()) <= COLOURS:
            return octets
        shown = image.convert("RGB").quantize(COLOURS, method, dither=Image.Dither.NONE)
    out = BytesIO()
    shown.save(out, "PNG", optimize=True)
    return out.getvalue()


def small(path: Path, method: Image.Quantize = Image.Quantize.MEDIANCUT) -> None:
    """Rewrite a picture in place."""
    if path.suffix == ".svg":
        path.write_text(svg(path.read_text()))
    else:
        path.write_bytes(png(path.read_bytes(), method))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        small(Path(name))
