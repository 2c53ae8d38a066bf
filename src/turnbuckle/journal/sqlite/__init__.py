"""The embedded body of the journal: one SQLite file in the data folder, nothing to set up."""
