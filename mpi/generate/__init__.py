"""Writes the wrappers of hopbyte's preload libraries from the MPI header of the flavour being built."""
