"""`fairmend repair` of models that are only run, and of networks with links: files, words, and what is proven."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

import fairmend
import fairmend.report
from fairmend.spec import Spec
from support.canonical_cases import FEATURES, LINKS, SPEC, forest, people
from support.cli_case import run, succeeded

skl2onnx = pytest.importorskip("skl2onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a forest, a network, a spec with a link and a band, and people."""
    place = tmp_path_factory.mktemp("any-model")
    X, y = people(1500)
    SPEC.save(place / "spec.toml")
    frame = SPEC.decode(X)
    frame["paid"] = y
    frame.to_csv(place / "people.csv", index=False)
    (place / "forest.onnx").write_bytes(skl2onnx.to_onnx(forest(X, y), X[:1], target_opset=17).SerializeToString())
    return place


def repaired(folder, name, *options):
    """Run the command, and return its result and the folder that it wrote."""
    out = folder / name
    arguments = ["--data", folder / "people.csv", "--spec", folder / "spec.toml", "--out", out, *options]
    return run("repair", folder / "forest.onnx", *arguments), out


@pytest.fixture(scope="module")
def averaged(folder):
    """Return the folder of a repair by averaging."""
    done, out = repaired(folder, "averaged", "--method", "average")
    assert done.exit_code == 0, done.output
    return out


def test_a_forest_is_repaired_for_everyone_and_checked(folder):
    done, out = repaired(folder, "auto")
    assert done.exit_code == 0, done.output
    assert "does not depend on sex or age" in " ".join(done.output.split())
    assert "Weights changed" not in done.output
    checked = fairmend.check(out / "certificate.json", out / "model.onnx", spec=out / "spec.toml")
    assert checked.valid, checked.reasons
    result = json.loads((out / "result.json").read_text())
    assert result["everyone"] is True
    assert any("Husband" in sentence for sentence in result["by_classes"])
    assert result["after"]["data"]["count"] == 0
    page = (out / "report.html").read_text()
    assert "Proven for everyone" in page
    assert "the last layer, weight by weight" not in page  # of a forest


def test_a_repair_shows_who_lost_before_and_after_and_groups_of_a_column_that_the_model_does_not_read(folder):
    frame = pd.read_csv(folder / "people.csv")
    frame["district"] = np.where(frame["sex"] == "Male", "north", "south")  # told by sex
    frame.to_csv(folder / "districts.csv", index=False)
    out = folder / "effects"
    arguments = ["--data", folder / "districts.csv", "--spec", folder / "spec.toml", "--out", out]
    done = succeeded(run("repair", folder / "forest.onnx", *arguments, "--group", "district", "--method", "average"))
    assert "The features predict district with an AUC of 1.000" in " ".join(done.output.split())
    result = json.loads((out / "result.json").read_text())
    before, after = (result[side]["effects"] for side in ("before", "after"))
    for one, other in zip(before, after, strict=True):
        assert [value["value"] for value in one["values"]] == [value["value"] for value in other["values"]]
        assert {value["direction"] for value in one["values"]} == {"gains", "loses"}
        assert {value["direction"] for value in other["values"]} == {"neither"}
        assert {value[of][end] for value in other["values"] for of in ("score", "decision") for end in value[of]} == {0}
    assert [feature["feature"] for feature in result["before"]["groups"]] == ["sex", "age", "district"]
    assert ["district"] in [table["features"] for table in result["outcomes"]["tables"]]
    assert [proxy["column"] for proxy in result["proxies"]] == ["district"]
    assert {person["state"] for person in result["page"]["ranges"]["after"]} == {"one"}
    for text in ((out / "report.html").read_text(), fairmend.report.load_report(out).markdown):
        assert "Who loses, and by how much" in text
        assert "Features that stand for others" in text


def test_a_group_that_the_data_does_not_have_is_refused_before_anything_is_written(folder):
    for column, reason in {"sex": "the model reads this column", "paid": "the label", "x": "no such column"}.items():
        done, out = repaired(folder, "no-group", "--group", column)
        assert done.exit_code == 2
        assert reason in " ".join(done.output.split())
        assert not out.exists()


@pytest.mark.runs_models
def test_a_file_that_no_program_loads_is_valid_and_says_that_nothing_was_run(averaged, tmp_path):
    import onnx

    model = onnx.load(str(averaged / "model.onnx"))
    model.graph.node[-1].input.extend([model.graph.node[-1].input[0]] * 9)  # behind the entry, more than it takes
    onnx.save(model, str(tmp_path / "model.onnx"))
    head, _, rest = (averaged / "certificate.json").read_text().partition("\n")
    old = json.loads(head + "]}")["model"]["file_sha256"]
    new = hashlib.sha256((tmp_path / "model.onnx").read_bytes()).hexdigest()
    (tmp_path / "certificate.json").write_text(f"{head.replace(old, new)}\n{rest}")
    names = tmp_path / "certificate.json", tmp_path / "model.onnx"
    checked = succeeded(run("check", *names))
    said = " ".join(checked.output.split())
    assert "The model was not run: ONNX Runtime" in said
    assert "does not load the file" in said
    assert "VALID rests on reading the file alone: no program confirmed it." in said
    assert "Not run." in repr(fairmend.check(*names))
    assert run("check", *names, "--require-run").exit_code == 2


def test_the_repaired_file_takes_the_place_of_the_original(folder, averaged):
    import onnxruntime

    files = folder / "forest.onnx", averaged / "model.onnx"
    before, after = (onnxruntime.InferenceSession(str(path)) for path in files)
    for part in ("get_inputs", "get_outputs"):
        assert [(each.name, each.type) for each in getattr(after, part)()] == [
            (each.name, each.type) for each in getattr(before, part)()
        ]


@pytest.mark.parametrize("method", ["prof", "blind"])
def test_a_method_that_needs_a_network_is_refused_and_nothing_is_written(folder, method):
    done, out = repaired(folder, f"refused-{method}", "--method", method)
    assert done.exit_code == 2
    assert "use method auto or average" in " ".join(done.output.split())
    assert not out.exists()


def test_a_network_with_a_link_keeps_what_it_knows_about_the_feature(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    spec = Spec.from_dict(
        {
            "label": {"column": "paid", "positive": "1"},
            "feature": [{k: v for k, v in f.items() if k != "bands"} for f in FEATURES],
            "link": LINKS,
        }
    )
    X, y = people(2000)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(150):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            net(torch.from_numpy(X))[:, 0], torch.tensor(y * 1.0)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    rows = X[:50], X[50:550], y[50:550]
    by_classes = fairmend.repair(net, spec, *rows, X_unlabelled=X[550:])
    ignoring = fairmend.repair(net, spec, *rows, X_unlabelled=X[550:], keep_form=True)
    assert by_classes.by_classes
    assert by_classes.everyone
    assert not ignoring.by_classes
    accuracy = [np.mean(each.network.predict(X) == y) for each in (by_classes, ignoring)]
    assert accuracy[0] > accuracy[1] + 0.01
    by_classes.network.save(tmp_path / "fair.onnx")
    by_classes.certificate.save(tmp_path / "fair.json", tmp_path / "fair.onnx")
    assert fairmend.check(tmp_path / "fair.json", tmp_path / "fair.onnx").valid


def test_a_network_in_another_format_becomes_onnx_with_a_warning(folder, tmp_path):
    rng = np.random.default_rng(0)
    network = fairmend.Network(
        [fairmend.network.Affine(rng.normal(size=(1, 8)).astype(np.float32), np.zeros(1, np.float32))], []
    )
    network.save(tmp_path / "model.h5")
    frame = pd.read_csv(folder / "people.csv")
    frame.to_csv(tmp_path / "people.csv", index=False)
    arguments = ["--data", tmp_path / "people.csv", "--spec", folder / "spec.toml", "--out", tmp_path / "out"]
    done = run("repair", tmp_path / "model.h5", *arguments, "--guarantee", "everyone")
    assert done.exit_code in (0, 1), done.output
    if (tmp_path / "out" / "model.onnx").exists():
        assert "--keep-form" in done.output
    done = run("repair", tmp_path / "model.h5", *arguments, "--keep-form")
    assert (tmp_path / "out" / "model.h5").exists(), done.output
