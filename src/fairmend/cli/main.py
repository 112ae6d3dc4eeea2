"""The command line: `fairmend COMMAND`. Each command is a module of this package, imported when it runs."""

from __future__ import annotations

import click

from fairmend._version import __version__
from fairmend.cli.group import Group
from fairmend.cli.options import common_options

# In the order of `fairmend --help`. The texts are repeated here so that help and completion import no command.
_COMMANDS = {
    "demo": "Run the demo on a biased network.",
    "spec": "Write or check a spec.",
    "audit": "Count the people who are treated unequally.",
    "certify": "Prove for each person whether they are treated equally.",
    "repair": "Repair a network and prove the result.",
    "check": "Check a certificate independently.",
    "search": "Search the input space for unequal treatment.",
    "quantify": "Prove which share of all people is treated equally.",
    "report": "Write the report again, also in other formats.",
    "export-vnnlib": "Export fairness properties for other verifiers.",
    "bench": "Reproduce the tables of the paper.",
    "doctor": "Check the installation.",
    "completion": "Print the script for shell completion.",
}


@click.group(
    cls=Group,
    modules="fairmend.cli.",
    summaries=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="fairmend", message="%(prog)s %(version)s")
@common_options
def main() -> None:
    """Audit, repair and certify the individual fairness of neural networks.

    Start with: fairmend spec init DATA --model MODEL --protected FEATURES (or fairmend demo).

    You can set defaults for options in fairmend.toml, in this folder or a parent folder: one table for each command,
    such as [repair] with method = "prof", and [defaults] for options that several commands share.

    The exit code is 0 if the result is good, 1 if it is bad (such as unequal treatment or an invalid certificate), 2 if
    there is no result (such as after invalid input), and 130 after Ctrl-C or SIGTERM.
    """
