"""The command line: `main` declares the commands, and there is one file for each."""
