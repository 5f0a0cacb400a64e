"""Every figure's numbers against an independent computation on a small run; every figure is drawn."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from analysis_kit import EPS, SAMPLES
from safetensors.torch import load_file
from scipy.stats import binomtest, spearmanr
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix

from bilaw import analysis
from bilaw.analysis.figures import errors, robustness, samples, training, weighing
from bilaw.datasets.table import load
from bilaw.models import build


@pytest.fixture(scope="module")
def model(learned):
    net = build("fc1", (1, 8, 8), 10, seed=0)
    net.load_state_dict(load_file(learned.run.best))
    return net.eval()


@pytest.fixture(scope="module")
def points(learned):
    test = load("digits").test
    x = test.x[:SAMPLES].float() / 255
    moved = torch.from_numpy(samples.changes(learned, np.arange(SAMPLES)))
    return x, (x + moved).clamp(0, 1), test.y[:SAMPLES]


def lines(one, name):
    return [json.loads(line) for line in (one.run.path / name).read_text().splitlines()]


def test_the_probe_is_what_the_model_says_of_points_in_the_ball(learned, model, points):
    x, attacked, y = points
    seen = learned.seen
    assert seen.place.tolist() == list(range(SAMPLES))
    assert torch.equal(seen.y, y)
    assert torch.allclose(seen.logits, model(x), atol=1e-5)
    assert ((attacked - x).abs() <= EPS * 1.005).all()
    assert seen.size.max() == pytest.approx(EPS, rel=1e-5)
    # Changes are kept in 127 parts: what the model says of the points made of them is nearly the same.
    assert (model(attacked) - seen.logits_adv).abs().max() < 0.2
    loss = torch.nn.functional.cross_entropy
    assert loss(seen.logits_adv, y) > loss(seen.logits, y)
    assert 0 <= int(seen.survived.min()) <= int(seen.survived.max()) <= 20
    right = seen.logits_adv.argmax(1) == y
    assert seen.survived[right].float().mean() > seen.survived[~right].float().mean()


def test_confusions_are_scikit_learns(learned):
    data = analysis.confusion_matrix(learned).data
    y, seen = learned.seen.y, learned.seen
    for name, logits in (("clean", seen.logits), ("adversarial", seen.logits_adv)):
        assert data[name].tolist() == confusion_matrix(y, logits.argmax(1), labels=range(10)).tolist()


def test_the_classes_mistaken_most_are_shown():
    counts = np.diag([9] * 30)
    counts[3, 17] = 4
    counts[29, 0] = 2
    assert errors.most_mistaken(counts, 4).tolist() == [0, 3, 17, 29]


def test_ranks_are_counted_one_by_one(learned, even):
    data = analysis.ranks([learned, even]).data
    assert list(data) == ["learned", "even"]
    for one in (learned, even):
        expected = dict.fromkeys(range(1, 10), 0)
        for before, after in zip(one.seen.logits, one.seen.logits_adv, strict=True):
            order = before.argsort(descending=True).tolist()
            rank = order.index(int(after.argmax()))
            if rank:
                expected[rank] += 1
        held = data[one.name]
        assert dict(zip(held["rank"].tolist(), held["count"].tolist(), strict=True)) == expected
        assert held["eps"] == EPS


def test_own_weights_are_the_networks_at_the_clean_margins(learned):
    held = load_file(learned.run.omega)
    p = learned.seen.logits.softmax(1)
    features = p.gather(1, learned.seen.y[:, None]) - p
    hidden = (features @ held["layers.0.weight"].T + held["layers.0.bias"]).relu()
    raw = (hidden @ held["layers.2.weight"].T + held["layers.2.bias"]).sigmoid()[:, 0]
    assert learned.weight == pytest.approx((raw / raw.mean()).numpy(), rel=1e-4)


def test_heuristics_are_their_formulas_and_correlations_scipys(learned):
    data = analysis.schemes(learned).data
    p = learned.seen.logits_adv.double().softmax(1).numpy()
    y = learned.seen.y.numpy()
    own = p[np.arange(SAMPLES), y]
    m = own - np.where(np.eye(10, dtype=bool)[y], -1, p).max(1)
    kappa = learned.seen.survived.numpy()
    raw = {
        "mail": 1 / (1 + np.exp(5 * (m - 0.05))),
        "gairat": (1 + np.tanh(-1 + 5 * (1 - 2 * kappa / 20))) / 2,
        "wmmr": np.exp(-0.1 * m),
    }
    for name, values in raw.items():
        assert data[name] == pytest.approx(values / values.mean(), rel=1e-4)
        assert data["correlation"][name] == pytest.approx(spearmanr(data["own"], data[name]).statistic)
    means = [[rows[y == c].mean() for c in range(10)] for rows in (data["own"], data["mail"])]
    assert data["class means"][:2] == pytest.approx(np.array(means), rel=1e-5)


def test_distributions_are_quantiles_of_each_class(learned):
    data = analysis.distribution(learned).data
    y = learned.seen.y.numpy()
    for c in (0, 9):
        assert data["held-out"][c] == pytest.approx(np.percentile(learned.weight[y == c], (5, 25, 50, 75, 95)))
    raw = np.fromfile(learned.run.path / "weights.f16", "<f2").reshape(4, 4, -1)
    train = learned.run.splits()["train"]
    labels = load("digits").train.y[train].numpy()
    last = raw[3, 0].astype(float)
    assert data["training"][5] == pytest.approx(np.nanpercentile(last[labels == 5], (5, 25, 50, 75, 95)))
    assert data["epoch"] == 3


def history(one, values):
    raw = np.fromfile(one.run.path / "weights.f16", "<f2").astype(float)
    return raw.reshape(4, values, -1), one.run.splits()["train"].tolist()


def test_progress_follows_the_same_samples_through_the_file(learned):
    data = analysis.progress(learned, count=6).data
    raw, order = history(learned, 4)
    clean, adversarial = data["panels"]
    assert clean["places"].tolist() == adversarial["places"].tolist()
    rows = [order.index(place) for place in clean["places"]]
    for panel, value in ((clean, 0), (adversarial, 3)):
        assert panel["weight"] == pytest.approx(raw[:, value, rows])
        assert panel["bands"][2] == pytest.approx(np.percentile(raw[2, value], (10, 50, 90)))
        assert panel["count"] == len(order)
    # 4 epochs: the learning rate falls from 30 % and from 60 % on, in epochs 2 and 3.
    rates = [line["lr"] for line in lines(learned, "metrics.jsonl") if "lr" in line]
    assert data["steps"] == [i for i in range(1, 4) if rates[i] < rates[i - 1] / 2]
    assert data["steps"]


def test_a_history_of_one_weight_alone_is_parted_by_what_held(learned):
    raw, order = history(learned, 4)
    names = ("weight", "clean margin", "adversarial margin")
    values = {name: raw[:, i].astype(np.float32) for i, name in enumerate(names)}
    panels = weighing.progress_data(replace(learned, history=learned.history._replace(values=values)))["panels"]
    assert sum(panel["count"] for panel in panels) == len(order)
    for panel, sign in zip(panels, (1, -1), strict=True):
        rows = [order.index(place) for place in panel["places"]]
        assert (sign * raw[3, 2, rows] >= 0).all()
        assert panel["weight"] == pytest.approx(raw[:, 0, rows])


def test_the_weight_function_is_the_network_on_its_way(learned):
    data = analysis.omega(learned).data
    assert data["raw"].shape == (10, 10, 41)
    y, rival, t = 3, 7, 30
    p = np.zeros(10)
    p[y], p[rival] = 1 - t / 40, t / 40
    features = torch.tensor(p[y] - p, dtype=torch.float32)[None]
    from bilaw.analysis.weights import rivals

    assert data["raw"][y][rivals(10, y).index(rival)][t] == pytest.approx(learned.omega.network(features).item())
    assert data["x"][t] == pytest.approx(p[y] - p[rival])
    p = np.full(10, 0.1 * t / 40)
    p[y] += 1 - t / 40
    features = torch.tensor(p[y] - p, dtype=torch.float32)[None]
    assert data["raw"][y][-1][t] == pytest.approx(learned.omega.network(features).item())
    assert data["x of all"][t] == pytest.approx(p[y] - p[rival])
    lines = {tuple(line.get_xdata()[[0, -1]]) for line in analysis.omega(learned).figure.axes[0].lines}
    assert lines == {(1, -1), (1, 0)}


def test_a_loss_is_read_from_the_same_images_wherever_margins_are_taken(learned):
    scheme = replace(learned.config.scheme, features="adversarial-loss")
    reading = replace(learned, omega=None, config=replace(learned.config, scheme=scheme))
    (panel,) = weighing.progress_data(reading)["panels"]
    assert panel["name"] == "training samples"


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("classes", [None, [1, 7, 8]])
def test_likelihoods_are_projected_as_scikit_learn_does(learned, dims, classes):
    data = analysis.likelihoods(learned, classes, dims).data
    y = learned.seen.y.numpy()
    rows = np.arange(SAMPLES) if classes is None else np.flatnonzero(np.isin(y, classes))
    p = learned.seen.logits.double().softmax(1).numpy()[rows]
    theirs = PCA(3).fit(p)
    assert data["row"].tolist() == rows.tolist()
    assert np.abs(data["at"]) == pytest.approx(np.abs(theirs.transform(p)), abs=1e-6)
    assert data["share"] == pytest.approx(theirs.explained_variance_ratio_)
    assert data["shade"] == pytest.approx(learned.weight[rows])


def test_the_gallery_shows_the_extremes(learned, points):
    x, attacked, y = points
    data = analysis.gallery(learned, 5).data
    order = sorted(range(SAMPLES), key=lambda i: learned.weight[i])
    assert data["by"] == "weight"
    assert data["least"]["place"].tolist() == order[:5]
    assert learned.weight[data["most"]["place"]] == pytest.approx(sorted(learned.weight)[::-1][:5])
    for name in ("least", "most"):
        held, rows = data[name], data[name]["place"]
        assert held["clean"] == pytest.approx(x[rows].numpy())
        assert held["adversarial"] == pytest.approx(attacked[rows].numpy())
        assert held["label"].tolist() == y[rows].tolist()
        assert held["adversarial prediction"].tolist() == learned.seen.logits_adv[rows].argmax(1).tolist()


def test_without_weights_the_gallery_goes_by_margin(even):
    data = samples.gallery_data(even, 3)
    assert data["by"] == "margin"
    assert (data["least"]["value"] > 0).all()
    assert (data["most"]["value"] < 0).all()


def test_budget_counts_whom_every_smaller_ball_left(learned, model):
    data = analysis.budget([learned]).data["learned"]
    robust = learned.seen.robust
    assert data["radius"].tolist() == pytest.approx([EPS * f for f in (0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3)])
    assert data["accuracy"].tolist() == pytest.approx([row.float().mean().item() for row in robust])
    assert robust[0].tolist() == (learned.seen.logits.argmax(1) == learned.seen.y).tolist()
    assert all(bool((after <= before).all()) for before, after in pairwise(robust))
    assert (data["low"] <= data["accuracy"]).all()
    assert (data["accuracy"] <= data["high"]).all()
    # An attack of our own, one step of sign, may not break what is said to hold by more than a few.
    x, y = load("digits").test.x[:SAMPLES].float() / 255, learned.seen.y
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(torch.nn.functional.cross_entropy(model(x), y, reduction="sum"), x)
    held = model((x + EPS * gradient.sign()).clamp(0, 1)).argmax(1) == y
    assert (robust[4] & ~held).sum() <= 4


def test_scores_classes_and_verdicts_are_the_evaluations(learned, even):
    result = json.loads((learned.run.evaluation / "result.json").read_text())
    held = analysis.scores([learned, even]).data["learned"]
    assert held["accuracy"] == [score["accuracy"] for score in result["scores"]]
    verdicts = load_file(learned.run.evaluation / "verdicts.safetensors")
    by_class = analysis.classes([learned]).data["learned"]
    for c in range(10):
        of = verdicts["y"] == c
        assert by_class["robust"][c, 0] == pytest.approx(verdicts["pgd-5 robust"][of].float().mean().item())
        assert by_class["clean"][c, 0] == pytest.approx(verdicts["clean robust"][of].float().mean().item())
    assert by_class["attack"] == "pgd-5"


def test_pairs_are_mcnemars_test_and_marked_only_beyond_chance(learned, even):
    made = robustness.comparison_data([learned, even])
    assert [one.attack for one in made] == ["clean", "pgd-5"]
    for one in made:
        a, b = (load_file(x.run.evaluation / "verdicts.safetensors")[f"{one.attack} robust"] for x in (learned, even))
        only = int((a & ~b).sum()), int((~a & b).sum())
        assert (one.only_a, one.only_b) == only
        assert one.p == pytest.approx(binomtest(only[0], sum(only)).pvalue if sum(only) else 1)
        assert one.difference == pytest.approx((only[0] - only[1]) / SAMPLES)
        assert one.low <= one.difference <= one.high
        assert (one.better is None) == (one.p >= 0.05)
    assert analysis.comparison([learned, even]).data["pairs"][0]["n"] == SAMPLES


def test_curves_and_cost_are_what_the_files_say(learned, even):
    data = analysis.curves([learned, even]).data["learned"]
    told = [line for line in lines(learned, "metrics.jsonl") if "event" not in line]
    for key in ("loss", "clean", "robust", "lr", "ess"):
        assert data[key].tolist() == [line[key] for line in told]
    timing = lines(learned, "timing.jsonl")
    assert data["seconds"].tolist() == [line["seconds"] for line in timing]
    best = max(told, key=lambda line: line["robust"])
    assert told[data["best"]]["robust"] == best["robust"]
    cost = training.cost_data([learned])["learned"]
    phases = dict(zip(cost["phase"], cost["seconds"].tolist(), strict=True))
    assert phases["training"] == pytest.approx(sum(line["seconds"] for line in timing))
    taken = json.loads((learned.run.evaluation / "timing.json").read_text())["seconds"]
    assert phases["evaluation: pgd-5"] == taken["pgd-5"]
    assert cost["peak MiB"] == max(line["peak_mib"] for line in timing)


def test_the_audit_is_told_line_by_line(learned):
    result = json.loads((learned.run.evaluation / "result.json").read_text())
    data = analysis.audit(learned).data
    assert data["check"] == [finding["check"] for finding in result["audit"]]
    assert data["verdict"] == [finding["verdict"] for finding in result["audit"]]


def test_every_figure_is_drawn_and_is_the_same_file_again(learned, even, tmp_path):
    from bilaw.analysis import OF_RUN, OF_RUNS

    drawn = {name: draw([learned, even]) for name, draw in OF_RUNS.items()}
    drawn |= {f"learned-{name}": draw(learned) for name, draw in OF_RUN.items()}
    for name, one in drawn.items():
        assert one.figure.axes, name
    for kind, head in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        for again in ("a", "b"):
            drawn["ranks"].save(tmp_path / f"{again}.{kind}")
        held = (tmp_path / f"a.{kind}").read_bytes()
        assert held.startswith(head)
        assert held == (tmp_path / f"b.{kind}").read_bytes()
    with pytest.raises(ValueError, match="one of pdf, png, svg"):
        drawn["ranks"].save(tmp_path / "a.bmp")


def test_figures_refuse_what_is_no_class_and_no_dimension(learned):
    for classes in ([10], [-1], []):
        with pytest.raises(ValueError, match="class numbers out of"):
            samples.likelihoods_data(learned, classes)
    with pytest.raises(ValueError, match="2 or 3"):
        analysis.likelihoods(learned, dims=4)


def test_what_an_even_run_does_not_have_is_said(even):
    for draw in (weighing.distribution_data, weighing.progress_data, weighing.schemes_data, weighing.omega_data):
        with pytest.raises(analysis.Missing, match="trades"):
            draw(even)
