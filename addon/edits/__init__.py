"""Edits of operators' files, for commands and other tools: plain values in, a changed file or an error out."""
