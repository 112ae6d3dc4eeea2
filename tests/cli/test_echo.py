"""Lines that are printed without rich."""

from fairmend.cli.echo import echo_line


def test_a_line_is_one_line(capsys):
    echo_line("a\nVALID\x1b[2J", err=True)
    assert capsys.readouterr().err == "a\\nVALID\\x1b[2J\n"
