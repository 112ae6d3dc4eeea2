"""A cell of the tables, without running a repair."""


def fake_cell(setting, method):
    value = float(len(setting) + len(method)) / 4
    keys = ("CUR", "IDI-D", "IDI-S", "accuracy", "balanced", "AUC", "positive", "seconds")
    return {
        **dict.fromkeys(keys, value),
        "certificate": "everyone" if method == "auto" else "97 of 100",
        "objective": value,
    }
