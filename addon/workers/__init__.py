"""Worker processes as their supervisor sees them: started, asked and ended, each over a socket of its own."""
