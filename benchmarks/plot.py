"""The measures as one picture: every run a dot, the median a bar, the goal a line."""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def draw(measures: list[tuple[str, str, str, list[float]]], path: Path) -> None:
    figure, axes = pyplot.subplots(len(measures), 1, figsize=(9, 1.1 * len(measures)), layout="constrained")
    for axis, (name, goal, unit, values) in zip(axes, measures, strict=True):
        middle = sorted(values)[len(values) // 2]
        axis.barh([0], [middle], color="#4c78a8", height=0.5)
        axis.plot(values, [0] * len(values), "o", color="#222222", markersize=3)
        number = re.search(r"[\d.]+", goal)
        if number:
            axis.axvline(float(number[0]), color="#e45756", linewidth=1)
        axis.set_title(f"{name}: {middle:.3g} {unit}" + (f" (goal {goal})" if goal else ""), fontsize=8, loc="left")
        axis.set_yticks([])
        axis.set_xlim(left=0)
        axis.tick_params(labelsize=7)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
