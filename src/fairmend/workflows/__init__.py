"""From files to a result: read, check, compute, write; what the commands do, for Python too."""
