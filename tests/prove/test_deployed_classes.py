"""`verify_deployment` of a certificate about classes: members of a class get the same answers, or it shows."""

import numpy as np
import pytest

import fairmend
from fairmend import FairmendError
from support import people_models
from support.canonical_cases import SPEC, forest, people

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A folder with a repaired forest and its certificate, and the sessions of the original and of the repaired one."""
    folder = tmp_path_factory.mktemp("classes")
    X, y = people(1200)
    from skl2onnx import to_onnx

    file = to_onnx(forest(X, y), X[:1], target_opset=17, options={"zipmap": False})
    (folder / "forest.onnx").write_bytes(file.SerializeToString())
    result = fairmend.repair(folder / "forest.onnx", SPEC, X[:50], X[50:400], y[50:400], method="average")
    (folder / "fair").mkdir()
    result.network.save(folder / "fair" / "model.onnx")
    result.certificate.save(folder / "fair" / "certificate.json", folder / "fair" / "model.onnx")
    paths = folder / "forest.onnx", folder / "fair" / "model.onnx"
    return folder / "fair", *(onnxruntime.InferenceSession(str(path)) for path in paths)


def scores(session):
    """Return a function that gives the probabilities of encoded rows."""
    return lambda rows: session.run(None, {session.get_inputs()[0].name: np.asarray(rows, np.float32)})[1]


def test_the_repaired_file_matches_for_rows_and_for_people(served):
    folder, _, fair = served
    found = fairmend.verify_deployment(scores(fair), folder / "certificate.json", gives="probabilities")
    assert found.matches
    assert found.by_classes
    assert "get the answers of members of their classes" in repr(found)
    assert (found.differing, found.decisions, found.largest_excess, len(found.rows)) == (0, 0, 0, 0)
    of_people = fairmend.verify_deployment(
        lambda frame: scores(fair)(SPEC.encode(frame)), folder / "certificate.json", takes="people"
    )
    assert of_people.matches
    assert of_people.people > 100
    labels = fairmend.verify_deployment(
        lambda rows: fair.run(None, {fair.get_inputs()[0].name: rows})[0], folder / "certificate.json", gives="classes"
    )
    assert labels.matches


def test_the_original_in_its_place_differs(served):
    folder, original, fair = served
    for takes in ("encoded", "people"):
        encode = (lambda rows: rows) if takes == "encoded" else SPEC.encode
        found = fairmend.verify_deployment(
            lambda given, encode=encode: scores(original)(np.nan_to_num(encode(given), posinf=9, neginf=-9)),
            folder / "certificate.json",
            takes=takes,
            gives="probabilities",
        )
        assert not found.matches
        assert found.differing > 50
        assert found.decisions > 0
        assert found.largest_excess > 0.01
        assert {"deployed", "for a member", "age"} <= set(found.rows.columns)
        assert "another answer than a member of their class" in repr(found)
        assert found.as_dict()["rows"]

    def leaky(rows):  # the last bit of a score says the sex
        return scores(fair)(rows) * np.float32(1 + 1.2e-7 * (np.nan_to_num(rows[:, :1]) > 0))

    assert not fairmend.verify_deployment(leaky, folder / "certificate.json", gives="probabilities").matches


def test_another_file_and_a_changed_one_are_refused(served, tmp_path):
    folder, *_ = served
    with pytest.raises(FairmendError, match="model forest"):
        fairmend.verify_deployment(len, folder / "certificate.json", folder.parent / "forest.onnx")
    import onnx

    changed = onnx.load(str(folder / "model.onnx"))
    changed.doc_string = "another file with the same graph"
    onnx.save(changed, str(tmp_path / "other.onnx"))
    with pytest.raises(FairmendError, match="about another file"):
        fairmend.verify_deployment(len, folder / "certificate.json", tmp_path / "other.onnx")


def test_a_file_with_several_inputs_gets_them_by_name(tmp_path):
    frame, spec = people_models.people(400), people_models.people_spec()
    people_models.save_tree_pipeline(people_models.tree_pipeline(frame), tmp_path / "trees.onnx")
    y = spec.labels(frame)
    result = fairmend.repair(tmp_path / "trees.onnx", spec, frame[:50], frame[50:300], y[50:300], method="average")
    result.network.save(tmp_path / "model.onnx")
    result.certificate.save(tmp_path / "certificate.json", tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))

    def predict(inputs):
        return np.array([each["yes"] for each in session.run(None, inputs)[1]])

    found = fairmend.verify_deployment(predict, tmp_path / "certificate.json", gives="probabilities")
    assert found.matches
