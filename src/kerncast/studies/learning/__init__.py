"""Training of models on measured launches: fitting, tuning, errors on what is held out, and files."""
