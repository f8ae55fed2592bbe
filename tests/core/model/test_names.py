"""Names and keys: what Kubernetes allows, and what it says of the others."""

from __future__ import annotations

import pytest

from fleet.values.names import (
    label_problems,
    label_value_problems,
    path_segment_problems,
    qualified_name_problems,
    starts_with_letter,
    subdomain_problems,
)


@pytest.mark.parametrize("text", ["a", "0", "my-name", "a" * 63])
def test_a_label_is_lower_case_letters_digits_and_dashes(text: str) -> None:
    assert label_problems(text) == []


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "a.b", "a_b", "a\n", "ä", "a" * 64])
def test_anything_else_is_no_label(text: str) -> None:
    assert label_problems(text)


def test_a_name_that_is_too_long_and_odd_is_told_both() -> None:
    length, letters = label_problems("A" * 64)
    assert length == "must be no more than 63 characters"
    assert letters.startswith("a lowercase RFC 1123 label must consist of")


@pytest.mark.parametrize(
    ("text", "allowed"), [("a.b-c.d", True), ("a" * 253, True), ("a" * 254, False), ("a..b", False)]
)
def test_a_subdomain_is_labels_with_dots_between_them(text: str, allowed: bool) -> None:
    assert (not subdomain_problems(text)) is allowed


@pytest.mark.parametrize(("text", "allowed"), [("job", True), ("0job", False), ("", False), ("ß", False)])
def test_the_name_of_a_service_starts_with_a_letter(text: str, allowed: bool) -> None:
    assert starts_with_letter(text) is allowed


@pytest.mark.parametrize(("text", "allowed"), [("a:b", True), ("..", False), ("a/b", False), ("50%", False)])
def test_a_path_segment_changes_no_path(text: str, allowed: bool) -> None:
    assert (not path_segment_problems(text)) is allowed


@pytest.mark.parametrize(
    ("text", "allowed"),
    [("app", True), ("example.com/App_1", True), ("a/b/c", False), ("/app", False), ("x/", False), ("a" * 64, False)],
)
def test_a_key_has_a_prefix_or_none(text: str, allowed: bool) -> None:
    assert (not qualified_name_problems(text)) is allowed


@pytest.mark.parametrize(("text", "allowed"), [("", True), ("My.value_1", True), ("-a", False), ("a" * 64, False)])
def test_a_label_may_have_an_empty_value(text: str, allowed: bool) -> None:
    assert (not label_value_problems(text)) is allowed
