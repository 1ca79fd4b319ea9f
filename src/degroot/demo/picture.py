"""The picture: who is trusted where along the curve, and what is answered."""

from pathlib import Path

import numpy as np

from degroot.demo.comparison import ALONG, Situation
from degroot.exceptions import InvalidInput
from degroot.paper.logistic import curve, on_the_line


def draw(path: Path, before: Situation, after: Situation, lost: str) -> None:
    """Weights above; below the answers with error bars, and those after the node `lost` has died."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidInput("The picture needs matplotlib: pip install 'degroot[plot]'.") from error

    answer, figure = before.drawn, Figure(figsize=(9, 7), layout="constrained")
    weights, values = figure.subplots(2, 1, sharex=True)
    weights.stackplot(ALONG, np.asarray(answer.weights).T, labels=answer.names, alpha=0.85)
    weights.set(ylabel="consensus weight", ylim=(0, 1), title="Who is trusted where")
    value, spread = np.asarray(answer.value), np.asarray(answer.standard_error)
    values.plot(ALONG, curve(on_the_line(ALONG)), color="black", lw=1, label="truth")
    values.plot(ALONG, value, color="tab:blue", label="all nodes")
    values.fill_between(ALONG, value - spread, value + spread, color="tab:blue", alpha=0.3, label="± standard error")
    values.plot(ALONG, np.asarray(after.drawn.value), color="tab:red", ls="--", label=f"without {lost}")
    values.set(xlabel="$\\xi = a'x$", ylabel="prediction", xlim=(ALONG[0], ALONG[-1]), ylim=(-0.4, 1.6))
    values.set_title("The collective prediction, with error bars")
    for axes in (weights, values):
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    try:
        figure.savefig(path, dpi=120)
    except OSError as reason:
        raise InvalidInput(f"The picture must go where files can be written; {path}: {reason.strerror}.") from reason
