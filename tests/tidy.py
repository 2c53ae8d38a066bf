"""The house rules as functions: one source file in, complaints out. `test_tidy.py` runs them and tests them.

A rule that concerns only a part of the tree looks at the path itself, so each can be tried on a made-up file.
"""

import ast
import gc
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
MAX_FUNCTION = 70
MAX_FILE = 500
MAX_PARAMETERS = 8

# From the top down; names in one row never import each other.
LAYERS = (
    ("cli",),
    ("testing",),
    ("asgi",),
    ("hosting", "agent"),
    ("upkeep",),
    ("app",),
    ("trust",),
    ("config",),
    ("settings",),
    ("server", "gateway", "acp", "console"),
    ("service",),
    ("runtime",),
    ("lab",),
    ("call", "tools", "journal", "observe"),
    ("objects",),
    ("narrate", "session"),
    ("turn",),
    ("reply", "wire"),
    ("vocab",),
    ("errors",),
)
NEVER = {"agent": ("server", "hosting")}
"""What an embedded library must not bring along, though it stands below."""
DEPTH = {name: depth for depth, row in enumerate(LAYERS) for name in row}
MAY_IMPORT_ROOT = (
    "asgi",
    "cli",
    "testing",
    "lab",
    "hosting",
    "app",
    "server",
)  # for the version and the public names
PURE = ("vocab", "wire", "reply", "turn", "session", "narrate")
NETWORK = {
    "aiohttp",
    "http.client",
    "http.server",
    "httpx",
    "httpx2",
    "requests",
    "socket",
    "ssl",
    "urllib.request",
}
WAITING = {
    "anyio",
    "asyncio",
    "concurrent",
    "multiprocessing",
    "select",
    "selectors",
    "threading",
    "trio",
    "uvloop",
}
CHANCE = {"random", "sched", "secrets", "time", "uuid"}
MACHINE = {
    "io",
    "logging",
    "os",
    "pathlib",
    "shutil",
    "signal",
    "sqlite3",
    "subprocess",
    "tempfile",
    "warnings",
}
IMPURE_MODULES = NETWORK | WAITING | CHANCE | MACHINE
IMPURE_CALLS = frozenset({"now", "utcnow", "today"})
IMPURE_NAMES = frozenset({"open", "input", "print"})
NAMELESS_MODULES = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "shared"})
UNFINISHED = re.compile(
    r"\b(?:TODO|FIXME|XXX|HACK|placeholder|not implemented|for now)\b|\bstub(?:bed)?\b", re.IGNORECASE
)
MACHINE_PATH = re.compile(r"(?<![\w.*])/(?:work|root|Users/\w+|home/\w+|opt|mnt)/\w")
PACKAGE_HOST = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:com|org)|debian\.org|conda\.anaconda\.org)\b"
)
ADDRESS = re.compile(r"https?://\[?([\w.-]+)")
OWN_HOSTS = frozenset({"127.0.0.1", "localhost"})
MADE = frozenset({"__pycache__", "node_modules"})
SWALLOWED = frozenset({"Exception", "BaseException"})
PROTOCOL_NAMES = ("openai_chat", "openai_responses", "anthropic", "gemini")

AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


class Source:
    """One file by its path under the root, with `/` between the names."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        parts = PurePosixPath(path).parts
        inside = parts[2:] if parts[:2] == ("src", "turnbuckle") else ()
        self.in_package = bool(inside)
        self.layer = "" if not inside else inside[0].removesuffix(".py")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree: each rule looks at all of them, and walking costs more than looking."""
        return list(ast.walk(self.tree))

    def at(self, node: ast.AST, complaint: str) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {complaint}"


Rule = Callable[[Source], Iterator[str]]


@cache
def python_files() -> list[Source]:
    """With their trees: a million nodes that nobody lets go of, so the collector need not look at them again."""
    gc.disable()
    try:
        sources = _python_files()
        for source in sources:
            _ = source.nodes
        gc.freeze()
    finally:
        gc.enable()
    return sources


def _python_files() -> list[Source]:
    return [
        _source(file)
        for folder in ("src", "tests", "benchmarks", "scripts")
        for file in _inside(folder)
        if file.suffix == ".py"
    ]


@cache
def all_files() -> list[Source]:
    """Every text that is part of the project, found without asking git, so that an unpacked archive is checked too."""
    folders = ("src", "tests", "benchmarks", "docs", "scripts", ".ci")
    inside = [file for folder in folders for file in _inside(folder)]
    beside = [ROOT / name for name in ("Makefile", "pyproject.toml", "requirements.lock", ".gitignore")]
    files = [*inside, *beside, *sorted(ROOT.glob("*.md"))]
    return [_source(file) for file in files if file.is_file()]


def _inside(folder: str) -> Iterator[Path]:
    """The files of a folder, without what set-up and Python put there."""
    for place, folders, names in os.walk(ROOT / folder):
        folders[:] = sorted(set(folders) - MADE)
        yield from (Path(place, name) for name in sorted(names))


def _source(file: Path) -> Source:
    return Source(file.relative_to(ROOT).as_posix(), file.read_bytes().decode("utf-8", "replace"))


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """Every import as (statement, dotted name); `from a import b` counts as `a.b`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


# Rules for the package


def imports_go_down(source: Source) -> Iterator[str]:
    if not source.in_package or source.layer in ("__init__", "__main__"):
        return
    if source.layer not in DEPTH:
        yield f"{source.path}:1: {source.layer} belongs to no layer; tests/tidy.py lists them"
        return
    for node, name in imports(source.nodes):
        target = name.split(".")
        if target[0] != "turnbuckle" or target[1] == source.layer:
            continue
        if target[1] not in DEPTH:
            if source.layer not in MAY_IMPORT_ROOT:
                yield source.at(node, f"{source.layer} imports the package's own root")
        elif target[1] in NEVER.get(source.layer, ()):
            yield source.at(node, f"{source.layer} imports {target[1]}, which it must do without")
        elif DEPTH[target[1]] <= DEPTH[source.layer]:
            yield source.at(node, f"{source.layer} imports {target[1]}, which is not below it")


def pure_layers_touch_nothing(source: Source) -> Iterator[str]:
    if source.layer not in PURE or not source.in_package:
        return
    for node, name in imports(source.nodes):
        parents = {name.rsplit(".", cut)[0] for cut in range(name.count(".") + 1)}
        if found := parents & IMPURE_MODULES:
            yield source.at(node, f"{source.layer} imports {min(found)}; time, ids and bytes are handed in")
    for node in source.nodes:
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in IMPURE_CALLS:
            yield source.at(node, f"{source.layer} asks for the time by {node.func.attr}()")
        if isinstance(node.func, ast.Name) and node.func.id in IMPURE_NAMES:
            yield source.at(node, f"{source.layer} calls {node.func.id}()")


IMPORTS_EXTRAS = ("src/turnbuckle/journal/opening.py", "src/turnbuckle/objects/opening.py")
"""They import what an extra of the package needs only when that is asked for."""


def imports_stand_at_the_top(source: Source) -> Iterator[str]:
    if not source.in_package or source.layer == "cli" or source.path in IMPORTS_EXTRAS:
        return
    for function in _functions(source.nodes):
        for node in ast.walk(function):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield source.at(node, f"import inside {function.name}")


def only_the_command_line_prints(source: Source) -> Iterator[str]:
    if not source.in_package or source.layer == "cli":
        return
    for node in source.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield source.at(node, "print outside cli")


PRINTERS = (
    "src/turnbuckle/cli/echo.py",
    "src/turnbuckle/cli/screen.py",
    "src/turnbuckle/cli/chat/terminal.py",
)
"""Where text is made visible before it is printed; `visible` is all that they know of it."""
_WRITES = re.compile(
    r"(?:print|input|getpass\.getpass|\w*(?:\.\w+)*\.write_raw|sys\.(?:stdout|stderr|__\w+__)(?:\.\w+)*\.(?:write|writelines))"
)
_GETS_VISIBLE = re.compile(r"getpass\.getpass\(visible_line\(")


def the_command_line_prints_in_one_place(source: Source) -> Iterator[str]:
    """What a terminal shows goes through `cli/echo.py` or the screen, which make every sign visible."""
    if source.layer != "cli" or not source.in_package or source.path in PRINTERS:
        return
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith(
            ("sys.stdout.buffer", "sys.stderr.buffer")
        ):
            yield source.at(node, f"{ast.unparse(node)}: print with cli/echo.py")
        if not isinstance(node, ast.Call) or _GETS_VISIBLE.match(words := ast.unparse(node)):
            continue
        writes = _WRITES.fullmatch(ast.unparse(node.func)) or re.match(r"os\.write\([12],", words)
        if writes or any(
            word.arg == "file" and "sys.std" in ast.unparse(word.value) for word in node.keywords
        ):
            yield source.at(node, f"{ast.unparse(node.func)}: print with cli/echo.py")


def modules_have_a_noun(source: Source) -> Iterator[str]:
    for part in PurePosixPath(source.path).with_suffix("").parts:
        if source.in_package and part in NAMELESS_MODULES:
            yield f"{source.path}:1: {part} says nothing about what is inside"


def modules_say_what_they_are(source: Source) -> Iterator[str]:
    if source.in_package and not ast.get_docstring(source.tree):
        yield f"{source.path}:1: no docstring at the top"


def nothing_is_unfinished(source: Source) -> Iterator[str]:
    if not source.in_package:
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := UNFINISHED.search(line):
            yield f"{source.path}:{number}: {found.group()!r}"


def the_core_says_what_it_takes(source: Source) -> Iterator[str]:
    """In the pure layers `Any` stands only for the values of a JSON object. `wire` is left out: what others
    send is nothing else."""
    if not source.in_package or source.layer not in PURE or source.layer == "wire":
        return
    of_objects = {
        id(value)
        for node in source.nodes
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple)
        for value in node.slice.elts[1:]
    }
    for node in source.nodes:
        if isinstance(node, ast.Name) and node.id == "Any" and id(node) not in of_objects:
            yield source.at(node, "Any that is no value of a JSON object")


def private_names_stay_at_home(source: Source) -> Iterator[str]:
    """Nobody reads an attribute with an underscore that no class of the same file has."""
    if not source.in_package:
        return
    attributes = [node for node in source.nodes if isinstance(node, ast.Attribute)]
    mine = [
        node for node in attributes if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
    ]
    own = {node.attr for node in mine} | {"_replace", "_asdict", "_exit"}
    own |= {node.name for node in source.nodes if isinstance(node, AnyFunction)}
    for node in attributes:
        if re.match(r"_[^_]", node.attr) and node not in mine and node.attr not in own:
            yield source.at(node, f"{ast.unparse(node)} is a private name of somebody else")
    for place, name in imports(source.nodes):
        if re.match(r"_[^_]", name.rpartition(".")[2]):
            yield source.at(place, f"{name} is a private name of somebody else")


def class_names_stand_once(sources: Iterable[Source]) -> Iterator[str]:
    """Over the whole package: who reads a class's name knows which one is meant, whatever the file."""
    first: dict[str, str] = {}
    for source in sources:
        if not source.in_package:
            continue
        for node in source.nodes:
            if isinstance(node, ast.ClassDef) and first.setdefault(node.name, source.path) != source.path:
                yield source.at(node, f"{node.name} is a class of {first[node.name]} too")


def names_are_used(sources: Iterable[Source]) -> Iterator[str]:
    """Over the whole package: what stands at the top of a module is named somewhere else in it. What only
    tests need is in `lab` or `testing`, which are for them."""
    package = [source for source in sources if source.in_package]
    counts = Counter(word for source in package for word in re.findall(r"\w+", source.text))
    for source in package:
        if source.layer in ("lab", "testing"):
            continue
        for node in source.tree.body:
            yield from (
                source.at(node, f"nothing in the package uses {name}")
                for name in _bound_by(node)
                if counts[name] == 1 and not name.startswith("__")
            )


def _bound_by(node: ast.stmt) -> list[str]:
    """The names that a statement binds, but for those that a decorator hands to somebody."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [] if node.decorator_list else [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def constructors_take_few(source: Source) -> Iterator[str]:
    """Who needs more is given values that belong together, or does too much. The options of `Agent` are
    what its users type, each by its name."""
    if not source.in_package or source.path == "src/turnbuckle/agent/agent.py":
        return
    for function in _functions(source.nodes):
        arguments = function.args
        count = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]) - 1
        if function.name == "__init__" and count > MAX_PARAMETERS:
            yield source.at(function, f"a constructor with {count} parameters")


def nobody_compares_protocols(source: Source) -> Iterator[str]:
    """Outside of a protocol's folder, what depends on a protocol is asked of its value."""
    if not source.in_package or PurePosixPath(source.path).parent.name in PROTOCOL_NAMES:
        return
    for node in source.nodes:
        if isinstance(node, ast.Compare):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Constant) and inner.value in PROTOCOL_NAMES:
                    yield source.at(node, f"{ast.unparse(node)} compares names of protocols")


# Rules for all code


def functions_are_short(source: Source) -> Iterator[str]:
    for function in _functions(source.nodes):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > MAX_FUNCTION:
            yield source.at(function, f"{function.name} has {length} lines")


def files_are_short(source: Source) -> Iterator[str]:
    length = source.text.count("\n")
    if length > MAX_FILE:
        yield f"{source.path}:{length}: {length} lines"


def no_error_is_swallowed(source: Source) -> Iterator[str]:
    """Whoever catches everything must raise, or keep the error as a value."""
    for node in source.nodes:
        if not isinstance(node, ast.ExceptHandler):
            continue
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        broad = any(kind is None or ast.unparse(kind).rpartition(".")[2] in SWALLOWED for kind in kinds)
        inside = [inner for statement in node.body for inner in ast.walk(statement)]
        raises = any(isinstance(inner, ast.Raise) for inner in inside)
        keeps = any(isinstance(inner, ast.Name) and inner.id == node.name for inner in inside)
        if broad and not raises and not keeps:
            yield source.at(node, "catches everything and forgets it")


# Rules for tests


def tests_never_sleep_skip_or_mock(source: Source) -> Iterator[str]:
    """In a file that uses the virtual clock the loop's own sleep takes no time, so it is allowed there."""
    if not source.path.startswith("tests/"):
        return
    virtual = any(name.endswith(".VirtualClock") for _, name in imports(source.nodes))
    sleeps = ("time.sleep",) if virtual else ("time.sleep", "asyncio.sleep", "anyio.sleep")
    for node, name in imports(source.nodes):
        if name.startswith("unittest.mock"):
            yield source.at(node, "mocks")
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in sleeps:
            if [ast.unparse(argument) for argument in node.args] != ["0"]:
                yield source.at(node, "sleeps")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in (
            "pytest.mark.skip",
            "pytest.mark.skipif",
            "pytest.mark.xfail",
            "pytest.skip",
            "pytest.xfail",
        ):
            yield source.at(node, f"{node.attr}: a test passes or fails")


# Rules for every text


def no_machine_is_named(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if found := MACHINE_PATH.search(line) or PACKAGE_HOST.search(line):
            yield f"{source.path}:{number}: {found.group()}"


def pages_need_no_network(source: Source) -> Iterator[str]:
    """What a page asks the reader to do or open is in the project or on the reader's own machine."""
    if not source.path.endswith(".md"):
        return
    for number, line in enumerate(source.text.splitlines(), 1):
        for host in ADDRESS.findall(line):
            if host not in OWN_HOSTS:
                yield f"{source.path}:{number}: {host}"


def _functions(nodes: Iterable[ast.AST]) -> Iterator[AnyFunction]:
    return (node for node in nodes if isinstance(node, AnyFunction))


CODE_RULES: tuple[Rule, ...] = (
    imports_go_down,
    pure_layers_touch_nothing,
    imports_stand_at_the_top,
    only_the_command_line_prints,
    the_command_line_prints_in_one_place,
    modules_have_a_noun,
    modules_say_what_they_are,
    constructors_take_few,
    nobody_compares_protocols,
    the_core_says_what_it_takes,
    private_names_stay_at_home,
    nothing_is_unfinished,
    functions_are_short,
    files_are_short,
    no_error_is_swallowed,
    tests_never_sleep_skip_or_mock,
)
TEXT_RULES: tuple[Rule, ...] = (no_machine_is_named, pages_need_no_network)
