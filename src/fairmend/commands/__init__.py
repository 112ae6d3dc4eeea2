"""The bodies of the commands; `fairmend.cli` declares the commands themselves and stays light to import."""
