"""Every sample of a vendor's export is read with its counts and amounts, and bad files are refused by place."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rig.vendor_exports import MAPPINGS, SAMPLES, SAMPLES_READ, read, sample

from addon.reconcile.export_line import Export, ExportError, Tokens
from addon.reconcile.formats import FORMATS, read_export


def tokens_of(export: Export) -> Tokens:
    total = Tokens()
    for line in export.lines:
        total = total.plus(line.tokens or Tokens())
    return total


def test_every_sample_is_tested() -> None:
    assert {path.name for path in SAMPLES.iterdir()} - {"README.md"} == set(SAMPLES_READ)
    formats = {expected[0] for expected in SAMPLES_READ.values()}
    assert formats - {"mapped columns"} == {one.name for one in FORMATS}


@pytest.mark.parametrize("name", SAMPLES_READ)
def test_a_sample_has_its_amount_its_tokens_and_its_calls(name: str) -> None:
    export = read(name)
    cost = sum(line.cost_nanousd or 0 for line in export.lines)
    calls = sum(line.requests or 0 for line in export.lines)
    assert (export.format, cost, tokens_of(export), calls) == SAMPLES_READ[name]
    assert "2026-10-14" in export.days or export.days == {"2026-10"}


@pytest.mark.parametrize("name", ["openai_cost.csv", "google_reports.csv", "anthropic_tokens.csv"])
def test_the_ends_of_lines_and_a_byte_order_mark_do_not_matter(name: str) -> None:
    text = sample(name).removeprefix("\ufeff")
    assert read_export("\ufeff" + text.replace("\n", "\r\n")) == read_export(text)


def test_tiers_and_tools_have_their_names() -> None:
    long = [line for line in read("openai_costs.json").lines if line.tier == "long context"]
    assert {line.model for line in long} == {"gpt-5.4-2026-03-05"}
    assert [line.tier for line in read("openai_usage_completions.json").lines] == [None, None, "priority"]
    assert [line.tier for line in read("google_reports.csv").lines] == [None, None, None, "flex"]
    [search] = [line for line in read("anthropic_cost_report.json").lines if line.is_tool]
    assert (search.model, search.cost_nanousd) == (None, 120_000_000)
    assert {line.tier for line in read("anthropic_cost.csv").lines} == {None, "1h cache"}


@pytest.mark.parametrize(
    ("line_item", "model", "kind", "tier"),
    [
        ("gpt-5.4, input", "gpt-5.4", "input", None),
        ("gpt-5.4, output, long context", "gpt-5.4", "output", "long context"),
        ("gpt-5.4, cached input, flex", "gpt-5.4", "cached_input", "flex"),
        ("gpt-5.4, priority, input", "gpt-5.4", "input", "priority"),
        ("gpt-5.4, flex, input, long context", "gpt-5.4", "input", "flex long context"),
        ("gpt-5.4, web search", "gpt-5.4", None, None),
        ("web search", "web search", None, None),
    ],
)
def test_a_line_item_of_openai_has_its_direction_at_any_place(
    line_item: str, model: str, kind: str | None, tier: str | None
) -> None:
    columns = "start_time,end_time,amount_value,amount_currency,line_item,quantity,quantity_unit"
    [line] = read_export(f'{columns}\n1791936000,1792022400,1,usd,"{line_item}",1000,tokens\n', None).lines
    assert (line.model, line.kind, line.tier, line.is_tool) == (model, kind, tier, kind is None)
    assert line.tokens == (Tokens.of_kind(kind, 1000) if kind else None)


def test_days_without_use_are_known() -> None:
    for name in ("openai_costs.json", "openai_cost.csv", "openai_usage_completions.json"):
        assert read(name).days == {"2026-10-14", "2026-10-15"}
    empty = "start_time,end_time,start_time_iso,end_time_iso\n1791936000,1792022400,x,y\n"
    assert read_export(empty).days == {"2026-10-14"}


def test_pages_in_one_array_are_one_export() -> None:
    page = json.loads(sample("openai_costs.json"))
    both = read_export(json.dumps([{**page, "has_more": True}, page]))
    assert (len(both.lines), both.has_more) == (16, False)
    assert read_export(json.dumps({**page, "has_more": True})).has_more


BAD = {
    "": "the file is empty; export it again",
    "a,b\n1,2\n": "a format that is not known; name its columns with --columns FILE.toml",
    "[1]": "the file: must be an object",
    '{"data": [1]}': "data[0]: must be an object",
    '{"data": [': "line 1, column 11: no valid JSON",
    '{"data": [NaN]}': "no valid JSON: a number or a depth that no vendor writes",
    "[" * 100_000: "no valid JSON: a number or a depth",
    '{"a": ' + "9" * 5000 + "}": "no valid JSON: a number or a depth",
    "usage_date_utc,cost_usd\n2026-10-14,1.00\n2026-10-14,ten\n": (
        'line 3, column cost_usd: "ten" is not an amount such as 1.25 or 1,234.56; export the file again'
    ),
    "usage_date_utc,cost_usd\n14.10.2026,1\n": 'line 2, column usage_date_utc: "14.10.2026" is not a date',
    "usage_date_utc,usage_output_tokens\n2026-10-14,-1\n": (
        'line 2, column usage_output_tokens: "-1" is not a count from 0 to 10¹⁸'
    ),
    'usage_date_utc,cost_usd\n2026-10-14,"1\n': "no valid CSV",
    'usage_date_utc,cost_usd\n2026-10-14,"1"2\n': "no valid CSV",
    "start_time,end_time,amount_value,amount_currency\n1791936000,1,1,eur\n": (
        'line 2, column amount_currency: the currency is "eur"; only USD can be compared'
    ),
    "SKU description,Usage amount,Cost ($)\nGenerate content,1,2\n": "line 2, column Date: is missing",
    "Date,SKU description,Usage amount,Cost (€)\n2026-10-14,Generate content,1,2\n": "column Cost ($): is missing",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_bad_file_is_refused_by_place_with_what_to_do(text: str) -> None:
    with pytest.raises(ExportError) as error:
        read_export(text)
    assert BAD[text] in str(error.value)


HEADERS = [",".join(sorted(one.required)) for one in FORMATS]
CELLS = st.one_of(
    st.sampled_from(
        [
            "",
            "1",
            "-1",
            "1e9",
            "1e99",
            "2026-10-14",
            "1791936000",
            "9999999999",
            '"',
            '"a',
            "≤ 200k",
            "usd",
            "NaN",
        ]
    ),
    st.text(max_size=12),
)


@given(st.sampled_from(HEADERS), st.lists(st.lists(CELLS, max_size=8).map(",".join), max_size=6))
def test_no_csv_file_makes_the_reader_fail(header: str, rows: list[str]) -> None:
    text = "\n".join([header, *rows])
    for mapping in (None, MAPPINGS["deepseek_amount.csv"]):
        with suppress(ExportError):
            export = read_export(text, mapping)
            assert all(len(line.day) in (7, 10) for line in export.lines)


FIELDS = sorted(
    {name for one in FORMATS for name in one.required} | {"amount", "results", "data", "has_more"}
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), CELLS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8), max_size=4), st.booleans())
def test_no_json_file_makes_the_reader_fail(items: list[object], is_bucket: bool) -> None:
    document = {"data": [{"start_time": 1791936000, "results": items}] if is_bucket else items}
    for mapping in (None, MAPPINGS["deepseek_amount.csv"]):
        with suppress(ExportError):
            read_export(json.dumps(document), mapping)


@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    for start in ("", "{", "[", "Date,Slug,Usage,Prompt Tokens\n"):
        with suppress(ExportError):
            read_export(start + text)
