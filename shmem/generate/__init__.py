"""Generator of the functions of every type and operation: `python3 -m generate`, run by the Makefile."""
