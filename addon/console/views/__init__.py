"""The views of the console: one module for each, with the function that loads it."""
