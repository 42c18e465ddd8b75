"""The processes of ``tollgate serve``: a single server, or a supervisor with its workers."""
