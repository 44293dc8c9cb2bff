"""The table of advice: a coloured cell for each load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import altair as alt

from iocurve.report.charts.style import INK, Chart, data, finished, legend

LINE_HEIGHT = 14
ROW_HEIGHT = 66
"""Up to four lines of text, so that a cell is narrow enough for narrow pages."""
COLORS = {
    "pays": "#8fd19e",
    "neutral": "#ffe08a",
    "harms": "#f1a5a0",
    "no difference seen": "#eef0f2",
    "not told": "#dfe3e8",
}
ADVICE = ("pays", "neutral", "harms")
"""Always in the legend."""


@dataclass(frozen=True)
class AdviceCell:
    """One load in a table of advice."""

    row: str
    """Kind and block size."""
    depth: int
    advice: str
    """``pays``, ``neutral`` or ``harms``, or why there is no colour."""
    text: str
    """Lines with a slash between them."""


def advice(cells: Sequence[AdviceCell]) -> Chart:
    """A table in green, yellow and red. The text repeats the verdict for readers who cannot tell the colours apart."""
    rows = list(dict.fromkeys(cell.row for cell in cells))
    base = alt.Chart(data([asdict(cell) for cell in cells])).encode(
        x=alt.X("depth:O", title="Depth (operations in flight)", axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("row:N", sort=rows, title=None),
    )
    present = {cell.advice for cell in cells}
    colors = {name: color for name, color in COLORS.items() if name in ADVICE or name in present}
    scale = alt.Scale(domain=list(colors), range=list(colors.values()))
    boxes = base.mark_rect(stroke="white", strokeWidth=3).encode(
        color=alt.Color("advice:N", title=None, scale=scale, legend=legend())
    )
    # A text of several lines has its first line, not its middle, at the middle of the cell.
    lines = max((cell.text.count("/") for cell in cells), default=0) + 1
    above = -LINE_HEIGHT * (lines - 1) / 2
    texts = base.mark_text(fontSize=11.5, color=INK, lineBreak="/", lineHeight=LINE_HEIGHT, dy=above).encode(
        text="text:N"
    )
    return finished(alt.layer(boxes, texts), height=ROW_HEIGHT * len(rows))
