"""Where models and texts come from: the package, a folder or the Hub."""
