"""Specs in TOML files: what is saved is loaded, and a wrong file is refused by line, feature or key."""

import json
from contextlib import suppress

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.spec import Spec
from fairmend.spec.toml import MOST_BYTES, toml_bytes
from fairmend.spec.toml import _has_deep_key as our_guard
from fairmend_check.errors import CheckError
from fairmend_check.kernel.spec import first_difference, read_spec
from fairmend_check.spec_toml import _has_deep_key as their_guard
from fairmend_check.spec_toml import read_spec_file
from support.spec_cases import refused
from support.strategies_spec import specs, unhurried


@unhurried
@given(spec=specs())
def test_what_is_saved_is_loaded(spec, tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "spec.toml"
    spec.save(path)
    assert Spec.load(path) == spec
    assert Spec.from_dict(spec.to_dict()) == spec


def test_the_file_has_the_documented_form_and_is_the_only_one(spec, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text("old")
    spec.save(str(path))
    text = path.read_text()
    assert text.startswith('[label]\ncolumn = "income"\npositive = ">50K"\n')
    assert '[[feature]]\nname = "age"\nkind = "integer"\nrange = [17, 90]\nprotected = true\n' in text
    assert "scale = {mean = 0.05, std = 0.02}" in text
    assert "tolerance = 1\n" in text
    assert [p.name for p in tmp_path.iterdir()] == ["spec.toml"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[feature]]\nname = "age"\nkind = \n', ["spec.toml, line 3", "TOML"]),
        ("a = 1\na = 2\n", ["spec.toml, line 2", "TOML"]),
        ("", ["spec.toml", "no features", "[[feature]]"]),
        ("feature = 3", ["spec.toml", "no features"]),
        ("feature = [3]", ["feature number 1", "table"]),
        ('label = "y"\n[[feature]]\nname = "a"\nkind = "continuous"\nrange = [0, 1]', ["[label]", "table"]),
        ("[[features]]\n", ['"features"', 'did you mean "feature"']),
        ('[[feature]]\nkind = "integer"\n', ["feature number 1", "no name"]),
        (
            '[[feature]]\nname = "age"\nkind = "integer"\nprotect = true\n',
            ['"age"', '"protect"', '"protected"'],
        ),
        ('[[feature]]\nname = "age"\nzzzzz = true\n', ['"age"', '"zzzzz"', "The known keys are"]),
        ('[[feature]]\nname = "age"\n', ['"age"', "no kind"]),
    ],
)
def test_a_wrong_file_is_refused(text, words, tmp_path):
    (tmp_path / "spec.toml").write_text(text)
    with refused(*words):
        Spec.load(tmp_path / "spec.toml")


def test_files_that_cannot_be_read_or_written_are_refused(spec, tmp_path):
    with refused("none.toml", "cannot read"):
        Spec.load(tmp_path / "none.toml")
    with refused("cannot write"):
        spec.save(tmp_path / "none" / "spec.toml")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    with refused("latin.toml", "UTF-8"):
        Spec.load(tmp_path / "latin.toml")
    (tmp_path / "folder").mkdir()
    with refused("folder", "is a folder"):
        spec.save(tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "latin.toml"]


def test_categories_in_a_file_may_be_numbers_and_booleans(tmp_path):
    (tmp_path / "spec.toml").write_text(
        '[[feature]]\nname = "a"\nkind = "categorical"\ncategories = [0, 1.0, true, 2.5]\nprotected = true\n'
    )
    spec = Spec.load(tmp_path / "spec.toml")
    assert spec.features[0].categories == ("0", "1", "True", "2.5")
    for column in ([1.0, 0.0], [1, 0], ["1", "0 "], pd.Categorical([1, 0]), pd.array([1, 0], dtype="Int64")):
        assert spec.encode(pd.DataFrame({"a": column})).ravel().tolist() == [1, 0]
    assert spec.encode(pd.DataFrame({"a": [True]})).item() == 2


@pytest.mark.parametrize(
    "key",
    [b"a", b"'a'", b'"a"', b'"\\""', b"a ", b'"." '],
    ids=["bare", "literal", "quoted", "escaped", "with spaces", "a dot"],
)
@pytest.mark.parametrize("form", [b"%s = 1\n", b"[%s]\n", b"[[%s]]\n", b"a = {%s = 1}\n"])
def test_a_key_without_end_is_refused_at_once(key, form, tmp_path):
    """The time to read it would grow with the square of its parts: minutes for the 4 MB that a file may have."""
    path = tmp_path / "spec.toml"
    path.write_bytes(form % b".".join([key] * (400_000 // (len(key) + 1))))
    with refused("spec.toml", "more than 50 parts"):
        Spec.load(path)
    with pytest.raises(CheckError, match="more than 50 parts"):
        read_spec_file(path)


@pytest.mark.parametrize("start", [b"", b'a = "'])
@pytest.mark.parametrize("unit", [b'\\"', b'"', b'"\\"', b"a\t", b'"""', b"\\\\", b'"x"y'])
def test_a_long_file_is_searched_for_deep_keys_once(start, unit):
    """A search from every sign took 20 s for the first 80 kB of some of them: 8 minutes for these, a day for 4 MB."""
    content = (start + unit * MOST_BYTES)[: MOST_BYTES // 10]
    assert not our_guard(content)
    assert not their_guard(content)


PIECES = [
    "a",
    "1",
    ".",
    " . ",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    "\\\\",
    '\\"',
    "\n",
    " ",
    "#",
    "=",
    " = 1\n",
    "[",
    "]",
    "{",
    "}",
    ",",
]
PIECES += [
    "a.b.c.d = 1\n",
    '"."."x"',
    "'\\'",
    '= "\\\\"\n',
    '= """\n',
    "= '''\n",
    '"""""\n',
    'x = """a""\\""""\n',
    "{a = 1, ",
]


@unhurried
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_no_deep_key_is_overlooked(text):
    """Whatever surrounds it: what the reader of Python takes for a key counts, also in texts with errors."""
    most = longest_key(text)
    for guard in (our_guard, their_guard):
        assert most <= 3 or guard(text.encode(), 3)


def longest_key(text):
    """Return how many parts the longest key has that the reader of Python meets."""
    parser = pytest.importorskip("tomllib._parser")  # of Python 3.11 and later
    counts = [0]
    parse_key, parse_part = parser.parse_key, parser.parse_key_part

    def count_key(*arguments):
        counts.append(0)
        return parse_key(*arguments)

    def count_part(*arguments):
        found = parse_part(*arguments)
        counts[-1] += 1
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser, "parse_key", count_key)
        patch.setattr(parser, "parse_key_part", count_part)
        with suppress(ValueError):
            parser.loads(text)
    return max(counts)


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "spec.toml").write_bytes(b"#" * (MOST_BYTES + 1))
    with refused("spec.toml", "larger than 4 MB"):
        Spec.load(tmp_path / "spec.toml")


@pytest.mark.parametrize(
    "texts", [[f"St. No. {n}." for n in range(99)], [f".{n}" for n in range(99)], [".".join("abc") for _ in range(99)]]
)
def test_texts_with_dots_are_no_deep_keys(texts):
    for form in (json.dumps(texts), "[" + ", ".join(f"'{text}'" for text in texts) + "]", f'"""{json.dumps(texts)}"""'):
        content = f"a = {form} # {'a.' * 99}".encode()
        assert not our_guard(content)
        assert not their_guard(content)


def test_a_long_list_of_decimal_numbers_is_no_deep_key(tmp_path):
    numbers = ", ".join(f'"{number}.5"' for number in range(5000))
    (tmp_path / "spec.toml").write_text(
        f'[[feature]]\nname = "v"\nkind = "categorical"\ncategories = [{numbers}]\nprotected = true\n'
    )
    assert Spec.load(tmp_path / "spec.toml").width == 1


@unhurried
@given(specs())
def test_the_checker_reads_the_same_spec(tmp_path_factory, spec):
    """Its reader shares no code with ours, and must come to the same columns and the same meaning."""
    content = json.loads(json.dumps(spec.to_dict()))
    theirs = read_spec(content, "spec")
    assert theirs.width == spec.width
    for ours, other in zip(spec.features, theirs.features, strict=True):
        assert (ours.dropped, ours.missing, type(ours.missing)) == (other.dropped, other.missing, type(other.missing))
    (tmp_path_factory.getbasetemp() / "spec.toml").write_bytes(toml_bytes(spec.to_dict()))
    assert first_difference(theirs, read_spec_file(tmp_path_factory.getbasetemp() / "spec.toml")) is None
