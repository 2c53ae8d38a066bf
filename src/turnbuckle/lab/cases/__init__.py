"""The catalogue: every behaviour that has a name. Each case is one way in which providers really behave."""

from collections.abc import Mapping

from turnbuckle.lab.cases.breaks import BREAKS
from turnbuckle.lab.cases.calls import CALLS
from turnbuckle.lab.cases.drafts import DRAFTS
from turnbuckle.lab.cases.errors import ERRORS
from turnbuckle.lab.cases.finishes import FINISHES
from turnbuckle.lab.cases.refusals import REFUSALS
from turnbuckle.lab.cases.spellings import SPELLINGS
from turnbuckle.lab.cases.whole import WHOLE
from turnbuckle.lab.script import Case
from turnbuckle.lab.script_text import ScriptError, nearest

CASES: tuple[Case, ...] = (*WHOLE, *SPELLINGS, *CALLS, *DRAFTS, *BREAKS, *ERRORS, *REFUSALS, *FINISHES)


def find_case(name: str, cases: Mapping[str, Case] | None = None) -> Case:
    """The case of that name. Raises ScriptError with the nearest match."""
    known = cases if cases is not None else {case.name: case for case in CASES}
    if name not in known:
        raise ScriptError(f'unknown case "{name}"{nearest(name, known)}')
    return known[name]
