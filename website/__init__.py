"""Builds the documentation site with MkDocs: ``make docs``."""
