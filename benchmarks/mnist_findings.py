def findings(rows, grid, tables):
    return ()
