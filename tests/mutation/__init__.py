"""Small faults that are put into the code, one at a time, and the tests that catch them: ``./run.sh mutate``."""
