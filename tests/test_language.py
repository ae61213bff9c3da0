"""The language of docs, messages, docstrings and names: phrases that are hard to understand, with budgets that fall.

A budget is how often a phrase still occurs: in the docs, in the package's messages, in its docstrings. Nothing may
exceed its budget. When you rewrite sentences, lower the budget; never raise one. The style guide in CONTRIBUTING.md
explains what to write instead.
"""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PHRASES: dict[str, tuple[str, str, tuple[int, int, int]]] = {
    # name: (pattern, what to write instead, budgets of docs, of messages, of docstrings)
    "is no": (
        r"(?<![Tt]here )\b(is|are|was|were|be) no (?!longer\b|better\b|more\b|other\b|further\b|different\b)[a-z]+",
        "is not a ..., or the positive statement",
        (0, 4, 5),
    ),
    "told": (r"\b(is|are|was|were|be|been|not) told\b(?! (apart|from|to))", "is reported, shown, known", (0, 0, 0)),
    "told apart": (r"\btold (apart|from)\b", "distinguished, differ significantly", (0, 0, 0)),
    "would tell": (
        r"\b(would|does|do|cannot) (not )?tell\b(?! (us|you|the|which|whether))",
        "show, establish, identify",
        (0, 0, 0),
    ),
    "holds 0": (r"\b(holds?|held|leaves?) 0\b", "contains 0, excludes 0", (0, 0, 1)),
    "without end": (r"\bwithout end\b", "infinite, unlimited, very large", (0, 0, 2)),
    "how far": (r"\bhow far\b(?! apart)", "how much, how many, the progress", (0, 0, 0)),
    "go on": (r"\b(go|goes|went) on\b", "continues, runs again", (0, 0, 0)),
    "Where there": (
        r"(^|[.:] )Where (there|it|they|one|a|an|the|no|every|several|rows?|runs?|cells?|scores)\b",
        "If ...",
        (0, 0, 12),
    ),
    "where there is": (
        r", where (there|it|they|one|no|that) (is|are|has|have)\b|\bwhere there (is|are)\b",
        "if ...",
        (0, 0, 0),
    ),
    "what is given": (
        r"\b[Ww]hat (is|was|are|were) (given|asked|said|known|left|found|there|missing|drawn|typed|named|recorded|wanted)\b",  # noqa: E501
        "the thing: the given value, the missing cells",
        (1, 0, 6),
    ),
    "one a cell": (
        r"\b(one|each|child|row|outcome|seed|value|entry|run|training) an? (cell|run|factor|worker|seed|class|core|GPU|row|example|trial|point|step|side)\b",  # noqa: E501
        "one per cell, each cell has one",
        (0, 0, 0),
    ),
    "beside": (r"\b[Bb]eside\b", "next to; in addition to; compared with", (0, 2, 7)),
    "anew": (r"\banew\b", "redraw, again, new", (0, 0, 0)),
    "for certain": (
        r"\b(as ever|for certain|for sure|for ever|all the same|hardly)\b",
        "as before; significantly; certainly; anyway; almost no",
        (0, 0, 2),
    ),
    "says so": (r"\bsa(y|ys|id) so\b", "reports this; name the message or check", (0, 0, 0)),
    "of yours": (r"\b(of (yours|ours|theirs)|(is|are) yours)\b", "your templates; our value", (1, 0, 17)),
    "stands in": (r"\bstands? (still|in|by|there|first|last|behind)\b", "is unchanged; is in; is listed in", (0, 1, 4)),
    "brings about": (
        r"\bbrings? about\b|\bhas a part in\b|\b(has|have|takes?) no part\b",
        "causes; has no effect, is not used",
        (0, 0, 0),
    ),
    "is that of": (r"\b(is|are) (that|those) of\b", "the noun again", (2, 0, 4)),
    "takes for": (
        r"\btak(e|es|en) [a-z ]{0,25}\bfor (independent|normal|an?|the|chance|no)\b",
        "assume that X is independent",
        (0, 0, 6),
    ),
    "mend": (
        r"\b(crowds?|mend(s|ed|ing)?|dear(er)?|ledger)\b|\bbears? [a-z ]{0,40}out\b",
        "concentrate; correct; expensive; run recorder; supports",
        (0, 0, 1),
    ),
    "published score": (r"\b(published|corrected) scores?\b", "importance; corrected importance", (0, 0, 0)),
    "where": (r"\b[Ww]here\b", "if, for a condition", (13, 38, 346)),
}
NAMES = {"found": 46, "own": 41, "known": 21, "given": 14}
"""Names of locals that do not say what they hold -> how often the package binds one."""
FORMS = {"two values on one long line": 22, "a text times a condition": 0}
"""Forms of code that must be read twice -> how often the package has them."""


def doc_nodes(nodes: list[ast.AST]) -> set[ast.Constant]:
    """Return the docstrings of modules, classes and functions, and those below attributes."""
    found = set()
    for node in nodes:
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.add(value)
    return found


def form_of(node: ast.AST) -> str:
    """Return which of FORMS a piece of code has; empty if none."""
    match node:
        case ast.Assign(targets=[ast.Tuple()], value=ast.Tuple(elts=values)):
            computed = [value for value in values if not isinstance(value, ast.Constant | ast.Name | ast.Attribute)]
            is_long = node.end_lineno == node.lineno and (node.end_col_offset or 0) > 91
            return "two values on one long line" if is_long and computed else ""
        case ast.BinOp(left=ast.JoinedStr() | ast.Constant(value=str()), op=ast.Mult(), right=factor):
            is_condition = isinstance(factor, ast.Compare | ast.BoolOp | ast.UnaryOp)
            return "a text times a condition" if is_condition or ast.unparse(factor).startswith("bool(") else ""
    return ""


@cache
def read() -> tuple[dict[str, str], Counter[str]]:
    """Return docs, messages and docstrings, each as one text with single blanks; how often each name or form occurs."""
    bound: Counter[str] = Counter()
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    prose = [re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL) for page in pages]
    messages, docstrings = [], []
    for path in sorted((ROOT / "mlflow_l3d").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docs = doc_nodes(nodes)
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                (docstrings if node in docs else messages).append(node.value)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound[node.id] += 1
            bound[form_of(node)] += 1
    parts = {"docs": prose, "messages": messages, "docstrings": docstrings}
    return {name: re.sub(r"\s+", " ", "\n".join(each)) for name, each in parts.items()}, bound


@pytest.mark.parametrize("name", PHRASES)
def test_phrases_keep_to_their_budgets(name: str) -> None:
    pattern, instead, budgets = PHRASES[name]
    for (place, text), budget in zip(read()[0].items(), budgets, strict=True):
        hits = [text[max(0, hit.start() - 40) : hit.end() + 40] for hit in re.finditer(pattern, text)]
        said = f"{place}: {name} occurs {len(hits)} times, {budget} allowed. Write {instead}: {hits}"
        assert len(hits) <= budget, said


def test_names_and_forms_keep_to_their_budgets() -> None:
    bound = read()[1]
    over = {name: bound[name] for name, budget in {**NAMES, **FORMS}.items() if bound[name] > budget}
    assert not over, f"{over}: name what the variable holds (importances, records), write a line for each value, or if"
