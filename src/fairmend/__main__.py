"""Run fairmend from the command line: `python -m fairmend`."""

from fairmend.cli.main import main

if __name__ == "__main__":
    main(prog_name="fairmend")
