"""Pairs in the user's own values: what is marked differs, and so do the predictions."""

from dataclasses import replace

import numpy as np
import pytest

from fairmend.auditing.neighbours import find_unequal
from fairmend.base.errors import FairmendError
from fairmend.evaluate.pairs import PairsFile
from fairmend.spec import Spec
from fairmend.tables import read_table
from support.cli_case import small_network, small_people, small_spec
from support.probabilities import pair_probability
from support.report_cases import repair_of, repaired


def test_pairs_differ_in_what_is_marked_and_in_the_answer():
    result, spec, net, frame, _ = repaired("prof")
    pairs = repair_of("prof").document.page.pairs
    assert pairs.rows
    for pair in pairs.rows:
        row = frame.iloc[pair.row]
        mine = dict(zip(pairs.columns, pair.values, strict=True))
        theirs = {name: other for name, other in zip(pairs.columns, pair.others, strict=True) if other is not None}
        assert set(theirs) == set(pair.differs) <= {"age", "gender"}
        assert {name: str(row[name]) for name in ("age", "gender", "credits")} == {
            name: mine[name] for name in ("age", "gender", "credits")
        }
        both = spec.encode(
            frame.iloc[[pair.row, pair.row]].assign(**{k: [row[k], _typed(v)] for k, v in theirs.items()})
        )
        assert net.predict(both).tolist() == pair.answers
        assert result.network.predict(both).tolist() == pair.answers_after
        assert pair.answers[0] != pair.answers[1]
        assert np.allclose(pair_probability(net, both, 1), pair.scores, atol=1e-6)


def _typed(text):
    return int(text) if text.isdigit() else text


# The file of pairs is written whole or not at all, and never over an input.


SPEC = small_spec()


def unequal(net):
    X = SPEC.encode(small_people())
    found = find_unequal(net, SPEC, X)
    rows = np.flatnonzero(found.rows)
    assert len(rows) > 2
    return rows, X[rows], found.other[rows]


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_file_holds_every_pair_with_predictions(tmp_path, outputs):
    net, path = small_network(outputs), tmp_path / "pairs.csv"
    rows, X, other = unequal(net)
    with PairsFile(path, SPEC, net) as file:
        file.write(rows[:2], X[:2], other[:2])
        file.write(rows[2:], X[2:], other[2:])
    table = read_table(path)
    assert table["row"].tolist() == rows.tolist()
    names = ["not yes", "yes"] if outputs == 1 else [0, 1, 2]
    assert table["answer"].tolist() == [names[answer] for answer in net.predict(X)]
    assert table["other_answer"].tolist() == [names[answer] for answer in net.predict(other)]
    assert ("score" in table) == (outputs == 1)
    people = table.assign(age=table["other_age"], gender=table["other_gender"])
    assert [names[answer] for answer in net.predict(SPEC.encode(people))] == table["other_answer"].tolist()


def test_without_pairs_the_file_has_a_header_only(tmp_path):
    with PairsFile(tmp_path / "pairs.csv", SPEC, small_network()):
        pass
    (header,) = (tmp_path / "pairs.csv").read_text().splitlines()
    assert header == "row,age,gender,income,credits,other_age,other_gender,answer,score,other_answer,other_score"


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    net, path = small_network(), tmp_path / "pairs.csv"
    path.write_text("old")
    file = PairsFile(path, SPEC, net).__enter__()
    file.write(*unequal(net))
    error = RuntimeError("stop")
    file.__exit__(RuntimeError, error, None)
    assert [p.name for p in tmp_path.iterdir()] == ["pairs.csv"]
    assert path.read_text() == "old"


def test_without_a_path_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with PairsFile(None, SPEC, small_network()):
        pass
    assert list(tmp_path.iterdir()) == []


def test_paths_that_cannot_be_written_are_refused(tmp_path):
    net, data = small_network(), tmp_path / "people.csv"
    small_people().to_csv(data, index=False)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link.csv").symlink_to(data)
    for path, message in (
        (tmp_path / "pairs.txt", r"ends in \.csv"),
        (tmp_path / "folder.csv", "is a folder"),
        (data, "would overwrite an input file"),
        (tmp_path / "link.csv", "would overwrite an input file"),
    ):
        with pytest.raises(FairmendError, match=message):
            PairsFile(path, SPEC, net, [data])
    with pytest.raises(FairmendError, match="cannot write there"), PairsFile(tmp_path / "no" / "x.csv", SPEC, net):
        pass


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    net, path = small_network(), tmp_path / "pairs.csv"

    def write():
        with PairsFile(path, SPEC, net) as file:
            file._stage.unlink()
            file._stage.mkdir()  # it cannot be written
            try:
                file.write(*unequal(net))
            finally:
                file._stage.rmdir()

    with pytest.raises(FairmendError, match=r"pairs\.csv: cannot write: "):
        write()


def test_ids_and_categories_are_no_formulas_for_a_spreadsheet(tmp_path):
    genders = ("=cmd|'/c calc'!A1", "@m")
    spec = Spec(
        [*SPEC.features[:1], replace(SPEC.features[1], categories=genders), *SPEC.features[2:]], id_column="-id"
    )
    net, path = small_network(), tmp_path / "pairs.csv"
    rows, X, other = unequal(net)
    with PairsFile(path, spec, net, from_data=True) as file:
        file.append(file.table.lines(rows, X, other, ["=1+1"] * len(rows)))
    header, first, *_ = path.read_text().splitlines()
    assert header.startswith("row,'-id,age,gender,")
    assert first.startswith(f"{rows[0]},'=1+1,")
    table = read_table(path)
    assert set(table["gender"]) | set(table["other_gender"]) <= {f"'{gender}" for gender in genders}
    assert (table["score"] == table["score"].astype(float)).all()
    people = table.assign(age=table["other_age"], gender=table["other_gender"])
    assert net.predict(spec.encode(people)).tolist() == table["other_answer"].tolist()
