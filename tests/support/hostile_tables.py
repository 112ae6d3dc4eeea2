"""Data files and specs that are damaged, lie or make no sense: name, suffix, and how to make one."""

import io
import pickle
from pathlib import Path

import numpy as np
import pandas as pd

from support.cli_case import small_people, small_spec
from support.hostile_models import Attack

HEADER = "age,gender,income,credits,good\n"


def parquet(frame: pd.DataFrame | None = None) -> bytes:
    buffer = io.BytesIO()
    (small_people() if frame is None else frame).to_parquet(buffer)
    return buffer.getvalue()


def csv(**changed) -> bytes:
    return small_people().astype(object).assign(**changed).to_csv(index=False).encode()


def always(content: bytes):
    return lambda folder: content


def wide_csv(columns: int) -> bytes:
    names = ",".join(f"column{number}" for number in range(columns))
    return f"{names}\n{','.join(['1'] * columns)}\n".encode()


DATA = {
    "csv: random bytes": (".csv", lambda folder: np.random.default_rng(0).bytes(20_000)),
    "csv: null bytes": (".csv", always(HEADER.encode() + b"\x00" * 5000)),
    "csv: UTF-16": (".csv", always((HEADER + "30,f,10,1,yes\n").encode("utf-16"))),
    "csv: a pickle": (".csv", lambda folder: pickle.dumps(Attack(folder))),
    "csv: a quote without end": (".csv", always(HEADER.encode() + b'30,"f,10,1,yes\n' * 50)),
    "csv: more fields than names": (".csv", always(HEADER.encode() + b"30,f,10,1,yes,1,2,3\n" * 50)),
    "csv: a name twice": (".csv", always(b"age,age,gender,income,credits,good\n" + b"30,30,f,10,1,yes\n" * 50)),
    "csv: one endless line": (".csv", always(b"x" * 20_000_000)),
    "csv: numbers beyond all": (".csv", always(csv(income="1e999"))),
    "csv: formulas for numbers": (".csv", always(csv(age="=1+1"))),
    "csv: twenty thousand columns": (".csv", always(wide_csv(20_000))),
    "csv: only a header": (".csv", always(HEADER.encode())),
    "parquet: half a file": (".parquet", always(parquet()[: len(parquet()) // 2])),
    "parquet: without its end": (".parquet", always(parquet()[:-4])),
    "parquet: text": (".parquet", always(HEADER.encode() * 20)),
    "parquet: a footer that lies": (".parquet", always(parquet()[:-8] + b"\xff\xff\xff\x7fPAR1")),
    "parquet: lists for numbers": (".parquet", always(parquet(small_people().assign(age=[[1, 2]] * 200)))),
    "parquet: no columns": (".parquet", always(parquet(pd.DataFrame(index=range(5))))),
    "a pickle by its own name": (".pkl", lambda folder: pickle.dumps(Attack(folder))),
}


def spec(old: str, new: str):
    def make(folder: Path) -> bytes:
        small_spec().save(folder / "made.toml")
        text = (folder / "made.toml").read_text()
        (folder / "made.toml").unlink()
        assert old in text
        return text.replace(old, new).encode()

    return make


AGE = "range = [18, 75]"
SPECS = {
    "random bytes": lambda folder: np.random.default_rng(1).bytes(5000),
    "a pickle": lambda folder: pickle.dumps(Attack(folder)),
    "null bytes": always(b"\x00" * 100),
    "nothing": always(b""),
    "deep lists": always(b"a = " + b"[" * 50_000),
    "deep keys": always(b"a" + b".a" * 50_000 + b" = 1"),
    "keys without end": always(b"a." * 2_000_000 + b"a = 1"),
    "quoted keys without end": always(b'[["\\"".' + b'"\\"".' * 600_000 + b"a]]"),
    "more than 4 MB": always(b"#" * 5_000_000),
    "eighty thousand features": always(b'[[feature]]\nname = "a"\nkind = "integer"\nrange = [0, 1]\n' * 80_000),
    "a list of features that is none": always(b"feature = 3\n"),
    "features that are numbers": always(b"feature = [1, 2, 3]\n"),
    "a range of words": spec(AGE, 'range = ["a", "b"]'),
    "a range that is one number": spec(AGE, "range = 18"),
    "a range of three": spec(AGE, "range = [18, 30, 75]"),
    "a range upside down": spec(AGE, "range = [75, 18]"),
    "an infinite range": spec(AGE, "range = [-inf, inf]"),
    "a range of nothing": spec(AGE, "range = [nan, nan]"),
    "a gigantic range": spec(AGE, "range = [-1e300, 1e300]"),
    "gigantic whole numbers": spec(AGE, f"range = [0, {10**400}]"),
    "a name that is a number": spec('name = "age"', "name = 17"),
    "a name twice": spec('name = "income"', 'name = "age"'),
    "a protected that is a word": spec("protected = true", 'protected = "yes"'),
    "categories that are one word": spec('categories = ["f", "m"]', 'categories = "fm"'),
    "categories within categories": spec('categories = ["f", "m"]', 'categories = [["f"], ["m"]]'),
    "a scale by 0": spec("scale = {min = 18.0, max = 75.0}", "scale = {min = 18, max = 18}"),
    "a scale of words": spec("scale = {min = 18.0, max = 75.0}", 'scale = {min = "a", max = "b"}'),
    "a negative tolerance": spec("range = [0, 5]", "range = [0, 5]\ntolerance = -1"),
    "an infinite tolerance": spec("range = [0, 5]", "range = [0, 5]\ntolerance = inf"),
    "a label that is a list": spec('column = "good"', 'column = ["good"]'),
    "a date for a range": spec(AGE, "range = [1979-05-27, 1980-05-27]"),
}
