"""The expressions of ``--fail-if``: ``read.p99 > 2ms and depth <= 16``, ``iops < 100k where family == "random-4k"``.

::

    expression = condition [ "where" condition ]
    condition  = conjunction { "or" conjunction }
    conjunction = factor { "and" factor }
    factor     = "not" factor | "(" condition ")" | comparison
    comparison = name [ "change" ] ( "<" | "<=" | ">" | ">=" | "==" | "!=" ) literal

A literal is a quantity with its unit, as elsewhere in iocurve, or a quoted text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from iocurve.analysis.check_names import Name, Vocabulary, slug
from iocurve.analysis.limit_kinds import LIMIT_KINDS, Confidence
from iocurve.foundation.errors import Diagnostic, DialectError, nearest
from iocurve.result.document import EARLIER_VALUES

Relation = Literal["<", "<=", ">", ">=", "==", "!="]
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quantity>-?\d+(?:\.\d+)?(?:\s?(?:(?!(?:and|or|not|where)\b)[A-Za-zµ]+(?:/s)?|%))?(?![\w.]))
    | (?P<name>(?:[a-z]\w*\.)?(?:(?:response_)?p\d+(?:\.\d+)?(?:_us)?(?!\w)|[a-z]\w*))
    | (?P<relation><=|>=|==|!=|<|>)
    | (?P<text>"[^"]*"|'[^']*')
    | (?P<bracket>[()])
    )""",
    re.VERBOSE,
)
_OPPOSITE: dict[Relation, Relation] = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_WORDS = ("and", "or", "not", "where", "change")
NESTING_MAX = 50


class ValueComparison(msgspec.Struct, frozen=True):
    """A value compared with a bound."""

    name: Name
    relation: Relation
    bound: float | str
    """In the unit of the name's measure."""
    literal: str
    """The bound as the user wrote it."""


class Logic(msgspec.Struct, frozen=True):
    """Conditions that are combined."""

    operator: Literal["and", "or"]
    parts: tuple[Condition, ...]


Condition: TypeAlias = ValueComparison | Logic


class Expression(msgspec.Struct, frozen=True):
    """A condition on points, or on the result where all its names are of the result."""

    text: str
    condition: Condition
    where: Condition | None = None
    """Selects points; None: all."""

    @property
    def is_of_result(self) -> bool:
        """True if the condition holds or not once for the whole result."""
        return self.where is None and all(one.name.is_of_result for one in comparisons(self.condition))


def comparisons(condition: Condition) -> Iterator[ValueComparison]:
    """The comparisons of a condition, from left to right."""
    if isinstance(condition, ValueComparison):
        yield condition
    else:
        for part in condition.parts:
            yield from comparisons(part)


def parse_all(texts: Sequence[str], known: Vocabulary) -> list[Expression]:
    """Reads expressions. Raises ``DialectError`` with every error and its column."""
    expressions, errors = [], []
    for text in texts:
        try:
            expressions.append(_ExpressionParser(text, known).expression())
        except _Problem as problem:
            errors.append(Diagnostic(f"--fail-if '{text}', column {problem.column}: {problem}"))
    if errors:
        raise DialectError(errors)
    return expressions


def _negated(condition: Condition) -> Condition:
    """The opposite, with ``not`` moved into the comparisons (De Morgan's laws)."""
    if isinstance(condition, ValueComparison):
        return replace(condition, relation=_OPPOSITE[condition.relation])
    return Logic("and" if condition.operator == "or" else "or", tuple(map(_negated, condition.parts)))


class _Problem(ValueError):  # noqa: N818 - it becomes a diagnostic
    def __init__(self, column: int, text: str) -> None:
        super().__init__(text)
        self.column = column


class _Token(msgspec.Struct, frozen=True):
    kind: str
    """``quantity``, ``name``, ``relation``, ``text``, ``bracket``, ``word`` or ``end``."""
    text: str
    column: int


def _tokens(text: str) -> list[_Token]:
    tokens, place, end = [], 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            place += len(text[place:]) - len(text[place:].lstrip())
            raise _Problem(place + 1, _unreadable(text[place:].split()[0]))
        kind, word = found.lastgroup, found[found.lastgroup]
        tokens.append(_Token("word" if word in _WORDS else kind, word, found.start(kind) + 1))
        place = found.end()
    return [*tokens, _Token("end", "", end + 1)]


def _unreadable(word: str) -> str:
    if word.startswith("="):
        return "'=' is not a relation; write =="
    if word[0] in "\"'":
        return f"the text {word} has no closing quote"
    if word[0].isdigit() or word[0] == "-":
        return f"'{word}' is not a quantity such as 2ms, 100k, 64KiB or 5%"
    return f"'{word}' is neither a name, a relation, a quantity nor a text in quotes"


class _ExpressionParser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str, known: Vocabulary) -> None:
        self._text, self._known = text, known
        self._tokens, self._place, self._depth = _tokens(text), 0, 0

    def expression(self) -> Expression:
        condition = self._condition()
        where = self._condition() if self._taken("where") else None
        if self._next.kind != "end":
            raise _Problem(self._next.column, f"'{self._next.text}' follows a complete condition; write 'and' or 'or'")
        return Expression(self._text, condition, where)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _taken(self, *texts: str) -> str | None:
        token = self._next
        if token.kind in ("word", "bracket") and token.text in texts:
            self._place += 1
            return token.text
        return None

    def _condition(self) -> Condition:
        parts = [self._conjunction()]
        while self._taken("or"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Logic("or", tuple(parts))

    def _conjunction(self) -> Condition:
        parts = [self._factor()]
        while self._taken("and"):
            parts.append(self._factor())
        return parts[0] if len(parts) == 1 else Logic("and", tuple(parts))

    def _factor(self) -> Condition:
        self._depth += 1
        if self._depth > NESTING_MAX:
            raise _Problem(self._next.column, f"more than {NESTING_MAX} levels of 'not' and brackets")
        try:
            if self._taken("not"):
                return _negated(self._factor())
            if not self._taken("("):
                return self._comparison()
            condition = self._condition()
            if not self._taken(")"):
                raise _Problem(self._next.column, "a closing bracket is missing")
            return condition
        finally:
            self._depth -= 1

    def _comparison(self) -> ValueComparison:
        name = self._name()
        if self._taken("change"):
            try:
                name = self._known.change(name)
            except ValueError as error:
                raise _Problem(name.column, str(error)) from None
        relation = self._next
        if relation.kind != "relation":
            raise _Problem(relation.column, f"expected a relation (<, <=, >, >=, ==, !=) after {name.text}")
        self._place += 1
        literal = self._next
        if literal.kind not in ("quantity", "text"):
            raise _Problem(literal.column, f"expected a quantity or a text in quotes after {relation.text}")
        self._place += 1
        found = next(each for each in get_args(Relation) if each == relation.text)
        return ValueComparison(name, found, self._bound(name, found, literal), literal.text)

    def _name(self) -> Name:
        token = self._next
        if token.kind != "name":
            shown = f"'{token.text}'" if token.text else "the end"
            raise _Problem(token.column, f"expected the name of a value, as in p99 > 2ms, and found {shown}")
        self._place += 1
        try:
            return self._known.name(token.text, token.column)
        except ValueError as error:
            raise _Problem(token.column, str(error)) from None

    def _bound(self, name: Name, relation: Relation, literal: _Token) -> float | str:
        if literal.kind == "quantity":
            if name.measure == "text":
                raise _Problem(literal.column, f'{name.text} is a text; write "{literal.text}"')
            try:
                return name.parsed(literal.text)
            except ValueError as error:
                raise _Problem(literal.column, str(error)) from None
        if name.measure not in ("text", "number"):
            raise _Problem(literal.column, f"{name.text} is a quantity and no text")
        if relation not in ("==", "!="):
            raise _Problem(literal.column, "texts are compared with == and !=")
        return self._checked_text(name, literal)

    def _checked_text(self, name: Name, literal: _Token) -> str:
        """The text, checked where the values are known. A limit may be named by its code or by its short name."""
        text = literal.text[1:-1]
        known: Sequence[str] = ()
        if name.figure == "limited_by":
            codes = EARLIER_VALUES | {slug(kind.short_name): code for code, kind in LIMIT_KINDS.items()}
            text, known = codes.get(text, text), [*LIMIT_KINDS]
        elif name.figure == "limited_by_confidence":
            known = get_args(Confidence)
        elif name.figure == "series" and self._known.families is not None:
            known = sorted(self._known.families)
        if known and text not in known:
            close = nearest(text, known)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(known)}"
            raise _Problem(literal.column, f"no {name.text} is {literal.text}; {hint}")
        return text
