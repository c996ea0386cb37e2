"""Runs the command line: ``python -m lrp_axioms`` is ``lrp-axioms``."""

from lrp_axioms.benchmarks.cli import main

if __name__ == "__main__":
    main()
