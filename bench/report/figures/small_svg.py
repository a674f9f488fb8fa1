"""Writes matplotlib's SVG several times smaller; the same file looks right on a light and on a dark screen.

Most of such a file would be hatches, which matplotlib repeats over a square inch, and styles, which stand at
every element. Here a hatch is a small tile, and a style is a class, whose colours a media query changes.
"""

import re
from collections.abc import Mapping
from copy import deepcopy
from xml.etree import ElementTree

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

GROUP = f"{{{SVG}}}g"

HALO = "halo"
"""The gid of words that are to be set off from what is behind them."""

FONTS = "DejaVu Sans,Verdana,Arial,sans-serif"

_TILE = 24.0
"""Points after which every hatch repeats: all have a whole number of lines in them."""

_NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
_DIGITS = r"-?[\d.]+"
_CURVE = rf"C (?:{_DIGITS} ){{6}}\n"
_CIRCLE = re.compile(
    rf"M (?P<x>{_DIGITS}) (?P<y>{_DIGITS}) \n"
    rf"C (?:{_DIGITS} ){{4}}(?P<x1>{_DIGITS}) {_DIGITS} \n(?:{_CURVE}){{2}}"
    rf"C (?:{_DIGITS} ){{5}}(?P<y4>{_DIGITS}) \n(?:{_CURVE}){{4}}z\n"
)
"""A circle as matplotlib writes it: eight curves from (x, y), its top or foot, to the other at y4 and back.

The first curve ends at x1, on the side to which it goes: the inner edge of a ring goes the other way round.
"""

_NAMED_BY_MATPLOTLIB = re.compile(r"[A-Za-z0-9.]+_\d+")


def make_small(svg: str, *, ground: str, dark: Mapping[str, str]) -> str:
    """Write a picture in fewer characters.

    Args:
        svg: as matplotlib writes it.
        ground: the colour behind everything, around words with the gid `HALO`.
        dark: what replaces each colour on a dark screen; empty if the picture is the same on any.
    """
    root = ElementTree.fromstring(shorten_circles(svg))
    for element in root.findall(f"{{{SVG}}}metadata"):
        root.remove(element)
    for pattern in root.iter(f"{{{SVG}}}pattern"):
        _cut_to_tile(pattern)
    names: dict[str, str] = {}  # of what is referred to
    for definitions in root.iter(f"{{{SVG}}}defs"):
        for element in definitions.iter():
            if "id" in element.attrib:
                names[element.attrib["id"]] = f"d{len(names)}"
    classes: dict[str, str] = {}
    for element in root.iter():
        _shorten(element, names)
        for group in element:
            if group.get("id") == HALO:
                _add_halo(group, ground)
    for element in root.iter():
        if style := element.attrib.pop("style", ""):
            element.set("class", classes.setdefault(_short_style(style, names), f"s{len(classes)}"))
    _merge_groups(root)
    _write_rules(root, classes, dark)
    for element in root.iter():
        if not element.tag.endswith(("}text", "}tspan", "}style", "}title", "}desc")):
            element.text = "\n" if len(element) else None
        element.tail = "\n"
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def shorten_circles(svg: str) -> str:
    """Write each circle as two arcs in place of eight curves: dotted hatches have hundreds."""
    return _CIRCLE.sub(_as_arcs, svg)


def _as_arcs(circle: re.Match[str]) -> str:
    x, y, x1, y4 = (float(circle[name]) for name in ("x", "y", "x1", "y4"))
    across = y4 - y
    radius = abs(across) / 2
    sweep = int((x1 - x) * across > 0)
    arc = f"a {radius:.3g} {radius:.3g} 0 1 {sweep} 0"
    return f"M {circle['x']} {circle['y']} {arc} {across:.3g} {arc} {-across:.3g} z\n"


def _cut_to_tile(pattern: ElementTree.Element) -> None:
    """Keep of a hatch what is seen in its first tile."""
    rectangle, path = pattern
    for name in ("width", "height"):
        pattern.set(name, f"{_TILE:g}")
        rectangle.set(name, f"{_TILE + 1:g}")
    kept = []
    for line in re.findall(r"M[^M]*", path.get("d", "")):
        numbers = [float(number) for number in _NUMBER.findall(re.sub(r"a[^az]*", "", line))]
        inside = (min(axis) < _TILE + 1 and max(axis) > -1 for axis in (numbers[::2], numbers[1::2]))
        kept += [line] if all(inside) else []
    path.set("d", "".join(kept))


def _shorten(element: ElementTree.Element, names: Mapping[str, str]) -> None:
    """Attributes without what nobody sees or refers to."""
    look = element.attrib
    if look.get("transform", "").startswith("rotate(-0 "):
        del look["transform"]
    for name in ("x", "y", "width", "height", "transform"):
        if name in look and element.tag != f"{{{SVG}}}svg":
            look[name] = _NUMBER.sub(_rounded, look[name])
    if "d" in look:
        look["d"] = _short_path(look["d"])
    if "id" in look and look["id"] in names:
        look["id"] = names[look["id"]]
    elif _NAMED_BY_MATPLOTLIB.fullmatch(look.get("id", "")):
        del look["id"]
    for name in ("clip-path", f"{{{XLINK}}}href"):
        if name in look:
            look[name] = _renamed(look[name], names)


def _renamed(reference: str, names: Mapping[str, str]) -> str:
    return re.sub(r"#(\w+)", lambda name: f"#{names.get(name[1], name[1])}", reference)


def _rounded(number: re.Match[str]) -> str:
    """To a hundredth of a point."""
    words = f"{round(float(number[0]), 2) + 0.0:.2f}".rstrip("0").rstrip(".")
    return re.sub(r"^(-?)0\.", r"\1.", words)


def _short_path(path: str) -> str:
    """With short numbers; straight lines along an axis name only one coordinate."""
    parts, x, y = [], "", ""
    for command, arguments in re.findall(r"([MLQCaz])([^MLQCaz]*)", path):
        numbers = _NUMBER.sub(_rounded, arguments).split()
        if command == "L" and numbers[1] == y:
            parts.append(f"H{numbers[0]}")
        elif command == "L" and numbers[0] == x:
            parts.append(f"V{numbers[1]}")
        else:
            parts.append(f"{command}{' '.join(numbers)}")
        x, y = numbers[-2:] if command in "MLQC" else ("", "")
    return "".join(parts).replace(" -", "-")


def _add_halo(group: ElementTree.Element, ground: str) -> None:
    """The words of a group once more behind themselves, with a rim in the colour of the ground."""
    del group.attrib["id"]
    for words in [*group]:
        rim = deepcopy(words)
        rim.set("style", f"{words.get('style')}; stroke: {ground}; stroke-width: 2")
        group.insert([*group].index(words), rim)


def _short_style(style: str, names: Mapping[str, str]) -> str:
    declared = (part.strip() for part in style.split(";"))
    kept = (re.sub(r"\s*:\s*", ":", part) for part in declared if not part.startswith("font-family"))
    return _renamed(";".join(kept), names)


def _merge_groups(parent: ElementTree.Element) -> None:
    """Take away groups that say nothing."""
    for child in parent:
        _merge_groups(child)
    groups = [[*child] if child.tag == GROUP and not child.attrib else [child] for child in parent]
    parent[:] = [member for group in groups for member in group]


def _write_rules(root: ElementTree.Element, classes: Mapping[str, str], dark: Mapping[str, str]) -> None:
    """The style sheet, in place of matplotlib's own."""
    rules = [f"*{{stroke-linejoin:round}}text{{font-family:{FONTS}}}"]
    rules += [f".{name}{{{style}}}" for style, name in classes.items()]
    on_dark = [re.sub("#[0-9a-f]{6}", lambda colour: dark.get(colour[0], colour[0]), rule) for rule in rules]
    changed = [new for new, rule in zip(on_dark, rules, strict=True) if new != rule]
    if changed:
        rules += ["@media screen and (prefers-color-scheme:dark){", *changed, "}"]
    sheet = root.find(f"{{{SVG}}}defs/{{{SVG}}}style")
    assert sheet is not None  # matplotlib writes one into every file
    sheet.text = "\n".join(rules)
    sheet.attrib.clear()
