"""What makes the site of the documentation, with MkDocs: ``make docs``."""
