"""Who may see the console, and who may change something with it."""
