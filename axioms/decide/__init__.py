"""What decides: rules as formulas, their sweep over a graph, and equality of what comes out."""
