"""Real numbers decided by z3: ``reals`` translates SymPy's expressions, ``equality`` decides."""
