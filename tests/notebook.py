"""Runs the code cells of a notebook, without Jupyter: all that is needed of it is the value of a cell's last line."""

import ast
import base64
import contextlib
import io
from typing import Any

import altair
from vl_convert import vegalite_to_png

Cell = dict[str, Any]


def run(cells: list[Cell], *, draws: bool) -> list[Cell]:
    """The cells with the output of this run, and pictures if it ``draws``. An error of a cell is raised."""
    names: dict[str, Any] = {"__name__": "__main__"}
    numbers = iter(range(1, len(cells) + 1))
    return [_run(cell, names, next(numbers), draws) if cell["cell_type"] == "code" else cell for cell in cells]


def _run(cell: Cell, names: dict[str, Any], number: int, draws: bool) -> Cell:
    body = ast.parse("".join(cell["source"]), cell["id"])
    last = body.body[-1] if isinstance(body.body[-1], ast.Expr) else None
    body.body = body.body[:-1] if last else body.body
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(body, cell["id"], "exec"), names)
        value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names) if last else None
    outputs: list[Cell] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text.splitlines(True)})
    if value is not None:
        outputs.append(
            {"output_type": "execute_result", "execution_count": number, "data": _data(value, draws), "metadata": {}}
        )
    return cell | {"execution_count": number, "outputs": outputs}


def _data(value: Any, draws: bool) -> dict[str, Any]:
    """The value as text, with a picture or a table if it has one."""
    if isinstance(value, altair.LayerChart):
        specification = value.to_json()
        picture = base64.b64encode(vegalite_to_png(specification, scale=1)).decode() if draws else ""
        return {"image/png": picture, "text/plain": [type(value).__name__]}
    table = getattr(value, "_repr_html_", None)
    shown = {"text/html": table().splitlines(True)} if table else {}
    return {**shown, "text/plain": repr(value).splitlines(True)}
