"""A keyword is found as whole words, in any case and any script, and in time linear in the text."""

import re
import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.keywords import RuleText, compile_keywords, make_keywords

# keyword, text, whether it is found
FOUND = [
    ("sql", "Fix my SQL, please", True),
    ("sql", "(sql)", True),
    ("sql", "SQL-99", True),
    ("sql", "sql", True),
    ("sql", "", False),
    ("sql", "mysql", False),
    ("sql", "sqlite", False),
    ("sql", "sql_mode", False),
    ("sql", "sql2", False),
    ("sql", "mysql and sql", True),
    ("don", "I don't", True),
    ("c++", "C++ or Rust", True),
    ("c++", "c++17", True),
    ("c++", "abc++", False),
    (".net", "ASP.NET", True),
    ("[x]", "a [X] b", True),
    ("a|b", "b", False),
    ("^", "2^3", True),
    ("sql server", "SQL\n  Server?", True),
    (" sql  server ", "my sql server", True),
    ("sql server", "sqlserver", False),
    ("state-of-the-art", "a State-of-the-Art one", True),
    ("Straße", "HAUPTSTRASSE", False),
    ("Straße", "die STRASSE", True),
    ("ΣΊΣΥΦΟΣ", "ο σίσυφος", True),
    ("привет", "ПРИВЕТ!", True),
    ("привет", "приветик", False),
    ("café", "un cafe\u0301!", True),
    ("cafe\u0301", "un CAFÉ!", True),
    ("cafe", "un café", False),
    ("cafe", "un cafe\u0301", False),
    ("कर", "कर दो", True),
    ("कर", "करो", False),
    ("می", "می\u200cخواهم", False),
    ("데이터", "데이터를", False),
    ("데이터", "내 데이터", True),
    ("數據庫", "請優化數據庫abc", True),
    ("データ", "このデータを", True),
    ("ข้อมูล", "ฐานข้อมูลของฉัน", True),
    ("sql", "用sql查询", True),
    ("🚀", "go🚀go", True),
]


@pytest.mark.parametrize(("keyword", "text", "found"), FOUND)
def test_a_keyword_is_found_as_whole_words_only(keyword: str, text: str, found: bool) -> None:
    assert make_keywords((keyword,)).find_in(RuleText(text)) == (keyword if found else None)


def test_of_several_keywords_the_first_in_the_text_is_named_as_it_was_written() -> None:
    keywords = make_keywords(("Data", "DataBase", "SQL Server", "SQL", "c++", "數據庫"))
    for text, found in {
        "the database": "DataBase",
        "sql  server data": "SQL Server",
        "data, c++": "Data",
        "c++, data": "c++",
        "我的數據庫": "數據庫",
        "databases": None,
    }.items():
        assert keywords.find_in(RuleText(text)) == found


@given(
    st.text(string.ascii_letters + "_ .é中", min_size=1, max_size=6).filter(str.strip), st.text(max_size=30)
)
def test_a_keyword_between_spaces_is_always_found_and_only_there(keyword: str, text: str) -> None:
    keywords = make_keywords((keyword,))
    assert keywords.find_in(RuleText(f"{text} {keyword} {text}")) == keyword
    spaced = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    if " ".join(keyword.casefold().split()) not in spaced:
        assert keywords.find_in(RuleText(text)) is None


@given(st.from_regex(r"[a-z]{1,4}", fullmatch=True), st.text("abz _1.\n", max_size=20))
def test_for_words_of_ascii_letters_it_agrees_with_word_boundaries(keyword: str, text: str) -> None:
    expected = bool(re.search(rf"\b{keyword}\b", text))
    assert (make_keywords((keyword,)).find_in(RuleText(text)) is not None) == expected


@pytest.mark.parametrize(
    ("keyword", "text"),
    [
        ("sql", "xsql" * 250_000),
        ("a b c", ("a" + " " * 1000) * 1_000),
        ("a" * 50, "a" * 1_000_000),
        ("\u00e9", "x\u0301\u0327" * 300_000),
    ],
)
def test_a_hostile_text_of_a_megabyte_is_read_to_its_end(keyword: str, text: str) -> None:
    # In quadratic time, this would not end during the test run.
    keywords = make_keywords((keyword,))
    assert keywords.find_in(RuleText(text)) is None
    assert keywords.find_in(RuleText(f"{text} {keyword}")) == keyword


@pytest.mark.parametrize(("keyword", "text", "found"), FOUND)
def test_operators_policies_search_plain_texts(keyword: str, text: str, found: bool) -> None:
    assert (compile_keywords((keyword,)).find_in(text.casefold()) == keyword) is found
