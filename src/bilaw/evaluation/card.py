"""A model card: a page for people, and the entry that RobustBench keeps of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bilaw.evaluation.result import describe

NORMS = {"linf": "Linf", "l2": "L2"}


def model_info(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry as RobustBench's model_info files have it; what a person has to say is left empty.

    Accuracies are in percent, as there. `unreliable` is what the audit says of AutoAttack's number.
    """
    scores = {score["attack"]: score for score in result["scores"]}
    auto = scores.get("autoattack")
    return {
        "link": "",
        "name": result["model"]["name"],
        "authors": "",
        "additional_data": False,
        "number_forward_passes": 1,
        "dataset": result["data"]["name"],
        "threat_model": NORMS[result["threat"]["norm"]],
        "venue": "",
        "architecture": result["model"]["name"],
        "eps": result["threat"]["eps"],
        "clean_acc": _percent(scores["clean"]),
        "reported": None,
        "autoattack_acc": _percent(auto) if auto else None,
        "unreliable": None if auto is None or auto["reliable"] is None else not auto["reliable"],
        "samples": result["data"]["samples"],
    }


def page(result: Mapping[str, Any]) -> str:
    """Return the page, in Markdown."""
    model, data, threat = result["model"], result["data"], result["threat"]
    trained = f", trained by {model['method']} with seed {model['seed']}" if "method" in model else ""
    count = f"{model['parameters']:,} parameters" if model["parameters"] is not None else "a function"
    which = "the test half" if data["half"] == "test" else "the data"
    many = f"{data['samples']:,} of {data['of']:,}"
    lines = [
        f"# {model['name']}",
        "",
        f"{count}{trained}.",
        "",
        f"- **data**: {data['name']}, {many} samples of {which}, {data['classes']} classes",
        f"- **threat**: {threat['norm']}, eps {threat['eps']:.4g}, pixels in [0, 1]",
        f"- **measured with**: bilaw {result['bilaw']}, PyTorch {result['environment']['torch']}, seed "
        f"{result['settings']['seed']}",
        "",
        "| attack | accuracy | 95 % interval | broken by | |",
        "|---|---|---|---|---|",
    ]
    for score in result["scores"]:
        broken = ", ".join(f"{name} {count}" for name, count in score["broken_by"].items() if count)
        mark = "" if score["reliable"] else "not audited" if score["reliable"] is None else "**unreliable**"
        interval = f"{score['low']:.1%} to {score['high']:.1%}"
        lines.append(f"| {score['attack']} | {score['accuracy']:.2%} | {interval} | {broken} | {mark} |")
    lines += [
        "",
        "Robust: classified correctly as it is, and at every point an attack found.",
    ]
    lines += ["", "## Audit", ""]
    if result["audit"]:
        lines += ["| check | verdict | what was seen |", "|---|---|---|"]
        lines += [f"| {f['check']} | {f['verdict']} | {f['meaning']} |" for f in result["audit"]]
    else:
        lines.append(describe(result)[-1])
    return "\n".join(lines) + "\n"


def _percent(score: Mapping[str, Any]) -> float:
    return round(100 * float(score["accuracy"]), 2)
