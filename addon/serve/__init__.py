"""The processes of ``tollgate serve``: one server, or a supervisor and its workers."""
