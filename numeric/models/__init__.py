"""Facts about stock models: records of families, copies that can be changed, and places."""
