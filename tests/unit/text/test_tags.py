import json

from addon.text.tags import recordable_tags


def test_no_tags_are_null():
    assert recordable_tags({}) is None


def test_tags_are_json_sorted_by_name():
    assert recordable_tags({"b": "2", "a": 'x"y', "B": ""}) == '{"B":"","a":"x\\"y","b":"2"}'


def test_credentials_are_masked_in_names_and_strings():
    assert recordable_tags({"sk-1234567890abcdef": "tg_0123456789"}) == '{"***":"***"}'


def test_text_that_no_database_takes_is_replaced():
    assert json.loads(recordable_tags({"a\0": "\ud800\0é"}) or "") == {"a": "?é"}
