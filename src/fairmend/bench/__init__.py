"""The paper's evaluation from one command: its tables with its numbers beside ours."""
