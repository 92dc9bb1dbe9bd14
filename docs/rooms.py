"""The import graph: `python docs/rooms.py` writes docs/figures/rooms.svg, which docs/design.md shows.

Rooms stand in the order of tests/test_architecture.py. An arc on the right is an import at the head of a
module, as thick as there are many; one on the left is an import that waits until a function is called,
or is for type checkers alone.
"""

import ast
import math
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "itergp"
# imported by nearly all; their arcs would hide the others
EVERYWHERE = ("brief", "errors", "limits", "validate")
STEP, MIDDLE, WIDTH = 26, 320, 640

Arcs = Counter[tuple[str, str]]


def arcs() -> tuple[Arcs, Arcs]:
    """How often modules of one room import from another: at their heads, and inside of functions."""
    eager: Arcs = Counter()
    lazy: Arcs = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).with_suffix("").parts[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        heads = {id(node) for statement in tree.body for node in ast.walk(statement) if not waits(statement)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not str(node.module).startswith("itergp"):
                continue
            modules = {f"{node.module}.{alias.name}".split(".")[1] for alias in node.names}
            for other in modules - {room, "__version__"}:
                (eager if id(node) in heads else lazy)[room, other] += 1
    return eager, lazy


def waits(statement: ast.stmt) -> bool:
    """Whether imports in it are not made when the module is imported."""
    return isinstance(statement, ast.FunctionDef | ast.ClassDef) or (
        isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
    )


def order() -> list[str]:
    """The rooms in the order in which they may import one another, from the test that enforces it."""
    tree = ast.parse((ROOT / "tests" / "test_architecture.py").read_text(encoding="utf-8"))
    named = [
        node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ROOMS"
    ]
    return list(ast.literal_eval(named[0].value))


def drawing() -> str:
    rooms, (eager, lazy) = order(), arcs()
    shown = [room for room in rooms if room not in EVERYWHERE]
    y = {room: 60 + STEP * place for place, room in enumerate(shown)}
    lines = [arc(y[a], y[b], many, 1) for (a, b), many in sorted(eager.items()) if a in y and b in y]
    lines += [arc(y[a], y[b], many, -1) for (a, b), many in sorted(lazy.items()) if a in y and b in y]
    names = [
        f'<text x="{MIDDLE}" y="{y[room] + 4}" text-anchor="middle" class="room">{room}</text>'
        for room in shown
    ]
    backward = [(a, b) for a, b in (*eager, *lazy) if a in rooms and rooms.index(a) < rooms.index(b)]
    assert not backward, f"imports against the order: {backward}"
    height = 80 + STEP * len(shown)
    title = (
        f"{len(rooms)} rooms, {len(eager)} arrows of imports at the head of modules, {len(lazy)} inside of "
        "functions; all point up, so there is no cycle"
    )
    style = (
        "text{font:13px sans-serif;fill:#555}.room{font-weight:bold;fill:#1f77b4}"
        "path{fill:none;stroke:#1f77b4;opacity:.55}.lazy{stroke:#2ca02c;stroke-dasharray:4 3}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{title}">',
            f"<style>{style}</style>",
            f'<text x="{WIDTH - 10}" y="24" text-anchor="end">imports at the head of a module</text>',
            '<text x="10" y="24">imports that wait for a call</text>',
            *lines,
            *names,
            f"<!-- {title} -->",
            "</svg>",
            "",
        ]
    )


def arc(below: int, above: int, many: int, side: int) -> str:
    """From the room that imports up to the one that it imports from."""
    reach = side * (70 + 0.42 * abs(below - above))
    x = MIDDLE + side * 62
    kind = "" if side > 0 else ' class="lazy"'
    width = 0.6 + 0.5 * math.log2(many + 1)
    return (
        f'<path{kind} stroke-width="{width:.1f}" d="M{x} {below} C{x + reach:.0f} {below} {x + reach:.0f} '
        f'{above} {x} {above}"/>'
    )


if __name__ == "__main__":
    (ROOT / "docs" / "figures" / "rooms.svg").write_text(drawing(), encoding="utf-8")
