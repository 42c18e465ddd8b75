"""Access to the console: who may see it, and who may change something with it."""
