"""Train all rows of a table together: `study` plans, trains and collects the runs of a STUDY.toml."""
