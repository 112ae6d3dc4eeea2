"""What all commands share: how they fail, where their defaults come from, what they log, how a shell completes them.

Everything here is light to import: `fairmend --help` goes through it.
"""

from fairmend.shell.completion import SHELLS, FileType, completion_script
from fairmend.shell.group import COULD_NOT_ANSWER, INTERRUPTED, TYPED, BareCommand, Group, common_options, config_of

__all__ = [
    "COULD_NOT_ANSWER",
    "INTERRUPTED",
    "SHELLS",
    "TYPED",
    "BareCommand",
    "FileType",
    "Group",
    "common_options",
    "completion_script",
    "config_of",
]
