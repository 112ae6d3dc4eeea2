"""Scripts that measure and attack fairmend; README.md says what each does. Folders import from each other by path."""
