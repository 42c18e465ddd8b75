"""Functions that SQLite has and PostgreSQL lacks, under the same names, so that each report is one text for both.

They are made next to the tables. Where both engines have a form of their own, such as ``coalesce`` or
``IS NOT DISTINCT FROM``, reports use that instead.
"""

from typing import Final

_PURE: Final = "LANGUAGE sql IMMUTABLE PARALLEL SAFE"

COMPAT: Final = (
    # The arguments have one type, or types that have a common one, and a literal has that of the other.
    f"""
    CREATE FUNCTION iif(boolean, anycompatible, anycompatible) RETURNS anycompatible {_PURE}
    AS 'SELECT CASE WHEN $1 THEN $2 ELSE $3 END'
    """,
    f"CREATE FUNCTION instr(text, text) RETURNS bigint {_PURE} AS 'SELECT strpos($1, $2)::bigint'",
    # A path is one name: '$.name' or '$."name"'.
    f"""
    CREATE FUNCTION json_extract(text, text) RETURNS text {_PURE}
    AS $$ SELECT $1::json ->> trim(BOTH '"' FROM substr($2, 3)) $$
    """,  # noqa: S608
    # The elements of an array. ``value`` is always text.
    f"""
    CREATE FUNCTION json_each(text) RETURNS TABLE (value text) {_PURE}
    AS 'SELECT value FROM json_array_elements_text($1::json) AS one (value)'
    """,  # noqa: S608
    # NULL is left out, and the list of nothing is NULL.
    f"""
    CREATE FUNCTION group_concat_end(text[]) RETURNS text {_PURE}
    AS $$ SELECT string_agg(one, ',') FROM unnest($1) AS one $$
    """,  # noqa: S608
    """
    CREATE AGGREGATE group_concat(text) (
        SFUNC = array_append, STYPE = text[], FINALFUNC = group_concat_end, PARALLEL = SAFE
    )
    """,
)
"""The statements that make the functions, in order."""
