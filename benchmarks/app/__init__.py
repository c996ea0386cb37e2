"""A page on this machine to explain a text by several methods: ``lrp-axioms serve``."""
